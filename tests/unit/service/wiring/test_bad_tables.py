"""Hudi tables in every kind of trouble: each is Blocked with its own reason, comes back when it is mended, and harms
no other table.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.model.instant import Instant, Service, Step
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.planners.ports import Observation, Storage
from tests.support.daemon.daemon_harness import DaemonHarness
from tests.support.doubles.fake import FakeFormat
from tests.support.hudi.hudi_table import HudiTable

BAD, GOOD = TableId("bad"), TableId("good")


class EitherFormat(FakeFormat):
    """Reads the bad table as Hudi does, and the good one as the fake pool can serve it."""

    def token(self, table: Table, storage: Storage) -> str:
        return HUDI.token(table, storage) if table.id == BAD else super().token(table, storage)

    def observe(self, table: Table, storage: Storage, previous: Observation | None, *, now: datetime) -> Observation:
        if table.id == BAD:
            bad = replace(table, options=HudiTableOptions(writers="none"))
            return HUDI.observe(bad, storage, previous, now=now)
        return super().observe(table, storage, previous, now=now)

    def endangered(self, view: TableView, service: Service, *, step: Step, instant: str | None) -> tuple[Instant, ...]:
        if view.kind == "FAKE":
            return super().endangered(view, service, step=step, instant=instant)
        return HUDI.endangered(view, service, step=step, instant=instant)


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A way to break a Hudi table, what is said of it, and how it is mended."""

    says: str
    make: Callable[[HudiTable], None]
    mend: Callable[[HudiTable], None]


def put_away(name: str) -> tuple[Callable[[HudiTable], None], Callable[[HudiTable], None]]:
    """Take a part of the table's folder away, and bring it back."""

    def away(table: HudiTable) -> None:
        (table.folder / name).rename(table.folder / "away")

    def back(table: HudiTable) -> None:
        (table.folder / "away").rename(table.folder / name)

    return away, back


def stray(content: bytes) -> tuple[Callable[[HudiTable], None], Callable[[HudiTable], None]]:
    """Leave a plan with this content on the timeline, and remove it."""

    def leave(table: HudiTable) -> None:
        table.put("20260101000000001.compaction.requested", content)

    def remove(table: HudiTable) -> None:
        table.remove("20260101000000001.compaction.requested")

    return leave, remove


def properties(text: str) -> tuple[Callable[[HudiTable], None], Callable[[HudiTable], None]]:
    """Replace a line of `hoodie.properties`, or all of it, and write it anew."""

    def change(table: HudiTable) -> None:
        file = table.home / "hoodie.properties"
        file.write_text(file.read_text() + text if "=" in text else text)

    return change, lambda table: table.set_properties(kind="MERGE_ON_READ")


def executed_by_another(table: HudiTable, *, run: str | None = None) -> None:
    """Let somebody with a heartbeat execute a plan."""
    table.start(table.plan_compaction(run=run), "compaction")


def ended_by_another(table: HudiTable) -> None:
    """Let that somebody complete it."""
    (plan,) = table.timeline.glob("*.compaction.requested")
    table.complete(plan.name.partition(".")[0], "compaction")


def trouble(says: str, both: tuple[Callable[[HudiTable], None], Callable[[HudiTable], None]]) -> Failure:
    return Failure(says=says, make=both[0], mend=both[1])


FAILURES = {
    "no .hoodie": trouble("holds no Hudi table: it has no .hoodie folder", put_away(".hoodie")),
    "no properties": trouble(".hoodie has no hoodie.properties", put_away(".hoodie/hoodie.properties")),
    "no timeline": trouble("the timeline's folder", put_away(".hoodie/timeline")),
    "damaged properties": trouble("half-written or damaged", properties("\x00\x01 nothing of a table")),
    "unknown version": trouble("table version 77 is unknown", properties("hoodie.table.version=77\n")),
    "empty plan": trouble("20260101000000001.compaction.requested cannot be read: it is empty", stray(b"")),
    "half-written plan": trouble("compaction.requested cannot be read: its Avro", stray(b"Obj\x01ha")),
    "foreign executor": trouble("is guarded by the heartbeat of", (executed_by_another, ended_by_another)),
}  # fmt: skip


def made_harness(folder: Path) -> tuple[DaemonHarness, HudiTable]:
    """Compose a daemon for a Hudi table with one commit, and a good table beside it."""
    harness = DaemonHarness(folder, names=[BAD, GOOD], formats={"fake": EitherFormat()})
    table = HudiTable(harness.lakes[BAD].folder, version=9, clock=harness.clock, zone=UTC)
    table.commit_write(table.begin_write())
    return harness, table


def last_decision(harness: DaemonHarness) -> tuple[str, str]:
    """Return the decision on the bad table's compaction, and its reason."""
    found = harness.store.decisions(BAD)[-1] if harness.store.decisions(BAD) else None
    return ("", "") if found is None else (found.decision, found.reason)


@pytest.mark.parametrize("way", FAILURES)
def test_a_table_in_trouble_is_blocked_with_its_reason_harms_no_other_and_comes_back(tmp_path: Path, way: str) -> None:
    """The reason names what is wrong; nothing runs on it; the others are served in the meantime."""
    harness, table = made_harness(tmp_path)
    FAILURES[way].make(table)
    harness.commands.mark_dirty(BAD)
    harness.write(3, GOOD)

    harness.until(lambda: harness.lakes[GOOD].log_files == 0, within=timedelta(seconds=15))
    decision, reason = last_decision(harness)
    assert decision == "Blocked"
    assert FAILURES[way].says in reason
    assert harness.runs(table=BAD) == []

    FAILURES[way].mend(table)
    harness.commands.mark_dirty(BAD)
    harness.until(lambda: last_decision(harness)[0] == "NotDue")
    assert harness.runs(table=BAD) == []


def test_our_plan_in_a_foreign_executors_hands_is_left_alone_and_told(tmp_path: Path) -> None:
    """While its heartbeat stands we wait; once it was completed without us, a person has to find out by whom."""
    harness, table = made_harness(tmp_path)
    executed_by_another(table, run="run-of-ours")
    harness.commands.mark_dirty(BAD)
    harness.until(lambda: "is guarded by the heartbeat of" in last_decision(harness)[1])
    ended_by_another(table)
    harness.commands.mark_dirty(BAD)
    harness.until(lambda: "was completed by another executor" in last_decision(harness)[1])
    assert harness.runs(table=BAD) == []


def test_garbage_on_the_timeline_is_no_trouble(tmp_path: Path) -> None:
    """What is no instant of Hudi's is looked over."""
    harness, table = made_harness(tmp_path)
    for name in ("20260101.commit", "notes.txt", "2026010100000000x.deltacommit.requested", ".#lock", "é.commit"):
        table.put(name, b"garbage")
    harness.commands.mark_dirty(BAD)
    harness.until(lambda: last_decision(harness)[0] == "NotDue")
    assert "1 of 3 commits" in last_decision(harness)[1]


def test_a_table_that_was_deleted_and_made_again_is_served_as_the_new_one(tmp_path: Path) -> None:
    """Nothing of the old one is counted, and while there is none the reason says so."""
    harness, table = made_harness(tmp_path)
    table.commit_write(table.begin_write())
    harness.commands.mark_dirty(BAD)
    harness.until(lambda: "2 of 3 commits" in last_decision(harness)[1])

    shutil.rmtree(table.folder)
    harness.commands.mark_dirty(BAD)
    harness.until(lambda: "holds no Hudi table" in last_decision(harness)[1])

    again = HudiTable(table.folder, version=9, clock=harness.clock, zone=UTC)
    again.commit_write(again.begin_write())
    harness.commands.mark_dirty(BAD)
    harness.until(lambda: "1 of 3 commits" in last_decision(harness)[1])
    assert harness.runs(table=BAD) == []
