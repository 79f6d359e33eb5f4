"""Trouble stays where it is: with its table, its store, or its worker."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakewarden.executors.contract import Assignment
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.errors import LakewardenError, TemporaryError
from lakewarden.planners.model.instant import Service, Step
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.ports import Observation, Storage
from lakewarden.service.model.run import RunState
from tests.support.daemon.daemon_harness import COMPACT_AND_CLEAN, TRIPS, DaemonHarness, prepare
from tests.support.doubles.fake import FakeFormat
from tests.support.doubles.fake_pool import FakePool
from tests.support.store.memory_store import MemoryStore

BAD, GOOD = TableId("bad"), TableId("good")


class SurprisedFormat(FakeFormat):
    """A format with a flaw: one table of it is more than it has thought of."""

    surprised = False

    def observe(self, table: Table, storage: Storage, previous: Observation | None, *, now: datetime) -> Observation:
        if self.surprised and table.id == BAD:
            raise KeyError("https://box.blob.core.windows.net/bad?sp=r&sig=abc%2F")
        return super().observe(table, storage, previous, now=now)


class Break:
    """A way to break the bad table, and to mend it."""

    def __init__(self, harness: DaemonHarness, format_: SurprisedFormat, way: str) -> None:
        folder = harness.lakes[BAD].folder
        self._properties, self._away = folder / "fake.json", folder / "away"
        self._format, self._way = format_, way
        self._stray = folder / "timeline" / "99999999.write.requested"

    def make(self) -> None:
        match self._way:
            case "missing":
                self._properties.rename(self._away)
            case "half-written":
                self._away.write_bytes(self._properties.read_bytes())
                self._properties.write_text("{")
            case "unreadable instant":
                self._stray.write_text("{")
            case "a surprise":
                self._format.surprised = True

    def mend(self) -> None:
        match self._way:
            case "missing" | "half-written":
                self._away.rename(self._properties)
            case "unreadable instant":
                self._stray.unlink()
            case "a surprise":
                self._format.surprised = False


WAYS = ["missing", "half-written", "unreadable instant", "a surprise"]


@pytest.mark.parametrize("way", WAYS)
def test_a_broken_table_harms_no_other_and_comes_back_when_it_is_mended(tmp_path: Path, way: str) -> None:
    """The others are served as ever, the broken one is blocked with its reason, and served when it is whole. A reason
    has no signature of an address.
    """
    format_ = SurprisedFormat()
    harness = DaemonHarness(tmp_path, names=[BAD, GOOD], formats={"fake": format_})
    broken = Break(harness, format_, way)
    harness.write(3, BAD)
    broken.make()
    harness.write(3, GOOD)

    harness.until(lambda: harness.lakes[GOOD].log_files == 0, within=timedelta(seconds=15))
    harness.for_a_while()
    assert harness.runs(table=BAD) == []
    (decision,) = harness.store.decisions(BAD)
    assert decision.decision == "Blocked"
    assert "abc%2F" not in str(decision)

    broken.mend()
    harness.until(lambda: harness.lakes[BAD].log_files == 0)


@pytest.mark.parametrize(("way", "step"), list(itertools.product(WAYS, Step)))
def test_a_table_that_breaks_under_a_run_harms_no_other(tmp_path: Path, way: str, step: Step) -> None:
    """The daemon lives on, and in the end the broken table's own work is done too, once."""
    format_ = SurprisedFormat()
    harness = DaemonHarness(tmp_path, names=[BAD, GOOD], formats={"fake": format_})
    broken = Break(harness, format_, way)
    harness.write(3, BAD)
    harness.until_executing(step)
    broken.make()
    harness.held_pool.release()
    harness.write(3, GOOD)
    harness.until(lambda: harness.lakes[GOOD].log_files == 0, within=timedelta(seconds=15))

    broken.mend()
    harness.until(lambda: harness.lakes[BAD].log_files == 0 and not harness.store.active(), within=timedelta(hours=1))
    assert len(harness.completed(Service.COMPACTION, BAD)) == 1


def test_a_table_that_cannot_be_read_is_looked_at_less_and_less_but_at_once_when_a_hook_comes(tmp_path: Path) -> None:
    """Its trouble is told once, its rests grow, and a hook ends them."""
    harness = DaemonHarness(tmp_path)
    (harness.lake.folder / "fake.json").rename(harness.lake.folder / "away")
    harness.for_a_while(timedelta(hours=1))
    assert len(harness.recorded.errors) == 1
    assert harness.status.polled_ago(TRIPS) is not None
    assert "holds no fake table" in str(_failure(harness))

    (harness.lake.folder / "away").rename(harness.lake.folder / "fake.json")
    harness.write(3)

    harness.until(lambda: harness.states() == [RunState.SUCCEEDED], within=timedelta(seconds=10))
    assert _failure(harness) is None


def _failure(harness: DaemonHarness) -> str | None:
    status = harness.status.table(TRIPS)
    assert status is not None
    return status.failure


def test_what_somebody_else_has_ended_is_theirs_to_tell(tmp_path: Path) -> None:
    """A run whose row was ended by another owner gets no permit; its worker is sent home and its slot is free."""
    harness = DaemonHarness(tmp_path)
    harness.write(3)
    run = harness.until_executing(Step.EXECUTE)
    harness.store.end(run.id, epoch=run.epoch, state=RunState.CANCELLED, outcome="by hand", at=harness.clock.now())
    harness.held_pool.release()

    harness.until(lambda: harness.pool.capacity().free == harness.slots)

    ended = harness.store.run(run.id)
    assert ended is not None
    assert ended.outcome == "by hand"
    assert harness.lake.log_files == 3
    harness.until(lambda: harness.lake.log_files == 0)


# -- the store


class FlakyStore(MemoryStore):
    """A store that does not answer some of the calls made of it; reads of the test's own are not counted."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.fails: Callable[[int], bool] = lambda _: False
        self.counting = False

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name in _METHODS and self.counting:
            return super().__getattribute__("_flaky")(found)
        return found

    def _flaky(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            if self.fails(self.calls):
                raise TemporaryError("the store does not answer")
            self.counting = False  # what a method calls of its own store is no call of the daemon's
            try:
                return method(*args, **kwargs)
            finally:
                self.counting = True

        return call


_METHODS = {"request", "take_lease", "progress", "end", "epoch", "instants", "decided", "active", "pauses"}


class FlakyHarness(DaemonHarness):
    """A harness with a store that is flaky while the control thread turns, and only then."""

    store: FlakyStore

    def turn(self) -> None:
        self.store.counting = True
        try:
            super().turn()
        finally:
            self.store.counting = False


def lived_through(folder: Path, fails: Callable[[int], bool]) -> FlakyHarness:
    """Let a table be compacted and cleaned while the store fails some calls."""
    store = FlakyStore()
    harness = FlakyHarness(folder, policies=COMPACT_AND_CLEAN, store=store)
    prepare(harness.lake)
    store.fails = fails
    harness.commands.mark_dirty(TRIPS)

    harness.until(lambda: harness.lake.log_files == 0 and harness.lake.file_versions < 3 and harness.at_rest())
    return harness


CALLS = 17
"""Calls of the store in the life of one compaction and one clean."""


def test_an_untroubled_life_has_as_many_calls_as_are_made_to_fail(tmp_path: Path) -> None:
    """Else the next test would not try every one of them."""
    harness = lived_through(tmp_path, lambda _: False)

    assert harness.store.calls == CALLS


@pytest.mark.parametrize("failing", [1, 4])
@pytest.mark.parametrize("first", range(1, CALLS + 1))
def test_store_trouble_at_any_call_loses_nothing(tmp_path: Path, first: int, failing: int) -> None:
    """Whichever calls fail: no event of the pool is lost, every run ends once, and every plan is completed once."""
    harness = lived_through(tmp_path, lambda call: first <= call < first + failing)

    assert harness.states() == [RunState.SUCCEEDED]
    assert harness.states(Service.CLEAN) == [RunState.SUCCEEDED]
    assert len(harness.completed(Service.COMPACTION)) == 2
    assert harness.pool.capacity().free == harness.slots
    assert harness.status.waiting() == {}


def test_a_store_that_does_not_answer_is_no_failure_of_a_table(tmp_path: Path) -> None:
    """Its disk is full, say. The table has been observed and is healthy, and it is served once the store answers."""
    store = FlakyStore()
    harness = FlakyHarness(tmp_path, policies=COMPACT_AND_CLEAN, store=store)
    prepare(harness.lake)
    store.fails = lambda _: True
    harness.commands.mark_dirty(TRIPS)
    harness.for_a_while(timedelta(minutes=2))
    assert store.calls > 1
    assert (_failure(harness), harness.recorded.errors) == (None, [])
    assert harness.states() == []

    store.fails = lambda _: False

    harness.until(lambda: harness.lake.log_files == 0 and harness.at_rest(), within=timedelta(minutes=2))


class FullPool(FakePool):
    """A pool whose worker goes away just when it is given its first run, and takes the store along for some calls."""

    def __init__(self, store: FlakyStore, *, slots: int, clock: ManualClock) -> None:
        super().__init__(slots=slots, clock=clock)
        self.store = store
        self.full = True

    def submit(self, assignment: Assignment) -> None:
        if self.full:
            self.full = False
            silent_until = self.store.calls + 3
            self.store.fails = lambda call: call <= silent_until
            raise TemporaryError("no free slot in the session pool")
        super().submit(assignment)


def test_a_run_that_found_no_slot_is_settled_when_the_store_answers_again(tmp_path: Path) -> None:
    """It must not stand as RUNNING, with nobody carrying it out, until the daemon is started again."""
    store = FlakyStore()
    harness = FlakyHarness(tmp_path, store=store)
    harness.compose(FullPool(store, slots=2, clock=harness.clock))
    harness.write(3)

    harness.until(lambda: harness.lake.log_files == 0 and harness.at_rest())

    assert harness.states() == [RunState.YIELDED, RunState.SUCCEEDED]


def test_an_error_of_the_store_is_the_answer_to_who_asked(tmp_path: Path) -> None:
    """The API tells it; the next time it works."""
    store = FlakyStore()
    harness = FlakyHarness(tmp_path, store=store)
    harness.lake.write()
    store.fails = lambda _: True
    future = harness.status.commands.request_run(TRIPS, Service.COMPACTION, by="a person")
    harness.turn()
    error = future.exception(timeout=0)
    assert isinstance(error, LakewardenError)

    store.fails = lambda _: False
    harness.status.commands.request_run(TRIPS, Service.COMPACTION, by="a person")
    harness.until(lambda: harness.states() == [RunState.SUCCEEDED])


def test_a_decision_that_the_store_could_not_keep_is_kept_later(tmp_path: Path) -> None:
    """Also if it stays the same: people ask the store for it."""
    store = FlakyStore()
    harness = FlakyHarness(tmp_path, store=store)
    (harness.lake.folder / "fake.json").unlink()
    store.fails = lambda _: True
    harness.for_a_while(timedelta(minutes=5))

    store.fails = lambda _: False
    harness.for_a_while(timedelta(minutes=20))

    (decision,) = harness.store.decisions(TRIPS)
    assert decision.decision == "Blocked"
    assert "holds no fake table" in decision.reason
