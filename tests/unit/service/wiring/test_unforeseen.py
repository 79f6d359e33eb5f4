"""An exception that no code foresees is the failure of one table. The daemon goes on, and serves the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from lakewarden.planners.model.errors import TemporaryError, UnknownError
from lakewarden.planners.model.instant import Fate, Instant, Service, Step, Timeline
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.planners.ports import Observation, Storage
from lakewarden.service.model.run import Run, RunState
from tests.support.daemon.daemon_harness import DaemonHarness
from tests.support.doubles.fake import FakeFormat
from tests.support.store.memory_store import MemoryStore

ODD, GOOD = TableId("odd"), TableId("good")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Print no tracebacks: each shows all that the table is."""
    with capture_logs():
        yield


class OddTimeline(Timeline):
    """Fails when it is asked for the fate of a run."""

    def fate(self, *, run: Any, instant: str | None) -> Fate:
        raise KeyError("no such action")


class OddFormat(FakeFormat):
    """Has a defect that one table meets, at one place."""

    def __init__(self, at: str) -> None:
        self._at = at

    def observe(self, table: Table, storage: Storage, previous: Observation | None, *, now: Any) -> Observation:
        seen = super().observe(table, storage, previous, now=now)
        if self._at != "settlement" or table.id != ODD:
            return seen
        parts = {name: getattr(seen.view.timeline, name) for name in seen.view.timeline.__dataclass_fields__}
        return replace(seen, view=replace(seen.view, timeline=OddTimeline(**parts), kind="ODD"))

    def endangered(self, view: TableView, service: Service, *, step: Step, instant: str | None) -> tuple[Instant, ...]:
        if self._at == "permit" and view.kind == "ODD":
            raise KeyError("no such write")
        return super().endangered(view, service, step=step, instant=instant)


class OddPermits(OddFormat):
    """Marks the views of the odd table, so that a permit meets the defect."""

    def observe(self, table: Table, storage: Storage, previous: Observation | None, *, now: Any) -> Observation:
        seen = super().observe(table, storage, previous, now=now)
        return replace(seen, view=replace(seen.view, kind="ODD")) if table.id == ODD else seen


def harness_of(folder: Path, at: str) -> DaemonHarness:
    harness = DaemonHarness(folder, names=(ODD, GOOD), formats={"fake": OddPermits(at)})
    for table in (ODD, GOOD):
        harness.write(3, table)
    return harness


def served(harness: DaemonHarness) -> Callable[[], bool]:
    return lambda: harness.states(table=GOOD) == [RunState.SUCCEEDED]


@pytest.mark.parametrize("at", ["permit", "settlement"])
def test_a_defect_that_one_table_meets_ends_neither_the_daemon_nor_its_service(tmp_path: Path, at: str) -> None:
    """The other table is served then and later."""
    harness = harness_of(tmp_path, at)
    harness.until(served(harness))
    harness.for_a_while(timedelta(minutes=7))
    assert RunState.SUCCEEDED not in harness.states(table=ODD)
    assert harness.lakes[ODD].rows == 3
    harness.write(3, GOOD)
    harness.until(lambda: harness.states(table=GOOD) == [RunState.SUCCEEDED] * 2)


def test_a_run_whose_permit_cannot_be_judged_is_refused_with_the_reason(tmp_path: Path) -> None:
    """It would hold its slot for ever. The same is true for the next one, after its rest."""
    harness = harness_of(tmp_path, "permit")
    harness.limits = replace(harness.limits, max_wait_for_writers=timedelta(seconds=40))
    harness.compose()
    ended = lambda: any(run.state.ended for run in harness.runs(table=ODD))  # noqa: E731
    harness.until(ended, within=timedelta(hours=1))
    assert "unexpected KeyError: 'no such write'" in str(harness.runs(table=ODD)[0].outcome)


class Forgetful(MemoryStore):
    """Gives no answer to one request, after it has stored the run or before."""

    silent: str | None = None
    broken = False

    def request(self, run: Run) -> Run:
        if self.broken:
            raise KeyError("no such column")
        silent, self.silent = self.silent, None
        if silent == "before":
            raise TemporaryError("the store does not answer")
        stored = super().request(run)
        if silent == "after":
            raise TemporaryError("the connection broke")
        return stored


@pytest.mark.parametrize("silent", ["before", "after"])
def test_a_run_that_was_stored_without_an_answer_is_known(tmp_path: Path, silent: str) -> None:
    """It goes on even if its service is not due any more. It stayed queued until the next start of the daemon."""
    store = Forgetful()
    harness = DaemonHarness(tmp_path, store=store)
    harness.for_a_while()
    store.silent = silent
    harness.write(3)
    harness.until(lambda: store.silent is None)
    if silent == "after":
        assert harness.states() == [RunState.QUEUED]
    plan = harness.lake.plan_compaction()  # by another: nothing is due
    assert plan is not None
    harness.lake.start(plan)
    harness.lake.complete(plan)
    harness.until(lambda: all(run.state.ended for run in harness.runs()), within=timedelta(hours=1))


def test_a_command_that_meets_a_defect_gets_an_answer(tmp_path: Path) -> None:
    """The caller is told, and the daemon goes on."""
    store = Forgetful()
    harness = DaemonHarness(tmp_path, store=store)
    harness.for_a_while()
    store.broken = True
    asked = harness.status.commands.request_run(TableId("trips"), Service.COMPACTION, by="a person")
    harness.lake.write()
    harness.until(asked.done)
    with pytest.raises(UnknownError, match="unexpected KeyError"):
        asked.result(timeout=0)
    store.broken = False
    harness.write(2)
    harness.until(lambda: harness.states() == [RunState.SUCCEEDED])
