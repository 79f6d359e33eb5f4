"""The statuses of all tables: kept until a part of them changes, and never older than the question."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import fields, replace
from pathlib import Path

import pytest

from lakewarden.executors.contract import Plan
from lakewarden.planners.model.instant import Instant, Service, State
from lakewarden.planners.model.table import DeletionBudget, Table, TableId
from lakewarden.planners.model.view import TableView, WriteFailure
from lakewarden.service.control.table_statuses import TableStatus, TableStatuses
from lakewarden.service.model.rows import RewriteRow
from lakewarden.service.model.run import RunState
from lakewarden.service.rules.settle import Consequence, Settlement
from lakewarden.service.rules.writer_failures import Blamed
from tests.support.daemon.daemon_harness import COMPACT_AND_CLEAN, START, TRIPS, DaemonHarness
from tests.support.values import a_run

ROW = RewriteRow(
    table=TRIPS, service=Service.COMPACTION, identity="", mark="00000001", asked_by="alice", asked_at=START
)
INSTANT = Instant(
    time="00000009", action="compaction", stands_for=Service.COMPACTION, state=State.COMPLETED, requested_at=START
)
LOST = WriteFailure(instant="00000009", at=START, reason="its heartbeat expired")


def _asked(rooms: TableStatuses, table: Table, view: TableView) -> None:
    run = a_run(table=TRIPS, identity=str(view.identity), service=Service.CLEAN)
    rooms._approvals.ask(table, run, Plan(instant=None, files_to_delete=10, files_in_table=20), view)


def _failed(rooms: TableStatuses, reason: str) -> None:
    rooms._poller._remembered[TRIPS].failure = reason


def _lost(rooms: TableStatuses, *failures: Blamed) -> None:
    rooms._poller._remembered[TRIPS].failures = failures


def _yielded(rooms: TableStatuses, view: TableView) -> None:
    yielded = Settlement(state=RunState.YIELDED, outcome="a writer went first", consequence=Consequence.REST)
    rooms._service_states.ended(TRIPS, Service.COMPACTION, yielded, view)


CHANGES: dict[str, Callable[[TableStatuses, Table, TableView], object]] = {
    "paused": lambda rooms, _table, _view: rooms._service_states.pause(TRIPS, "a migration"),
    "failure": lambda rooms, _table, _view: _failed(rooms, "its store does not answer"),
    "active": lambda rooms, _table, _view: rooms._active_runs.take_in(a_run(table=TRIPS)),
    "approvals": _asked,
    "writer_failures": lambda rooms, _table, _view: _lost(rooms, Blamed(failure=LOST, run=None)),
    "retries": lambda rooms, _table, view: _yielded(rooms, view),
    "smaller": lambda rooms, _table, _view: rooms._service_states.too_large(
        TRIPS, Service.COMPACTION, a_run().id, 2**40, "it killed its JVM"
    ),
    "rewrites": lambda rooms, _table, view: rooms._rewrites.begin(replace(ROW, identity=str(view.identity))),
    "foreign_services": lambda rooms, _table, _view: rooms._foreign_services._others.update({TRIPS: (INSTANT,)}),
}
"""For each field what changes it, and nothing else of the status."""


@pytest.fixture
def harness(tmp_path: Path) -> DaemonHarness:
    """Return a daemon that keeps the statuses of two tables with one commit each."""
    made = DaemonHarness(
        tmp_path, names=("trips", "orders"), policies=COMPACT_AND_CLEAN, budget=DeletionBudget(files=0)
    )
    for table in made.lakes:
        made.write(1, table)
    made.until(lambda: all(one.view is not None and one.decisions for one in made.status.tables()))
    return made


@pytest.mark.parametrize("field", CHANGES)
def test_the_list_shows_each_change_at_once_and_as_the_table_does(harness: DaemonHarness, field: str) -> None:
    """A room with few tables is asked for them alone, and the others are compared by fewer parts. Nothing is missed."""
    rooms, before = harness.status._statuses, harness.status.tables()
    assert before[0].view is not None
    assert not getattr(before[0], field)

    CHANGES[field](rooms, before[0].table, before[0].view)
    found = harness.status.tables()

    assert getattr(found[0], field)
    assert replace(found[0], **{field: getattr(before[0], field)}) == before[0]
    assert all(harness.status.table(one.table.id) is one for one in found)
    assert all(one is again for one, again in zip(found, harness.status.tables(), strict=True))


def test_each_part_of_a_status_is_tried_above() -> None:
    """A new part is asked for in the list, too. The rest changes with each observation or decision."""
    tried = {*CHANGES, "lock", "table", "owner", "view", "polled_every", "decisions", "would_run"}
    assert {one.name for one in fields(TableStatus)} == tried


def test_what_has_ended_is_shown_no_longer(harness: DaemonHarness) -> None:
    """The status is what it was before, although the room does not name the table any more."""
    before = harness.status.tables()
    harness.status.commands.pause(TRIPS, reason="a migration")
    harness.turn()
    harness.status._statuses._active_runs.take_in(a_run(table=TRIPS))
    assert harness.status.tables()[0].paused == "a migration"

    harness.status._statuses._active_runs.let_go(a_run(table=TRIPS))
    harness.status.commands.resume(TRIPS)
    harness.until(lambda: harness.status.tables()[0].decisions == before[0].decisions)

    assert (harness.status.tables()[0].paused, harness.status.tables()[0].active) == (None, ())


def test_a_table_that_has_not_changed_keeps_its_status(harness: DaemonHarness) -> None:
    """Thousands of facts about tables are kept by it."""
    before = harness.status.tables()[1]
    harness.status.commands.pause(TRIPS, reason="a migration")
    harness.turn()
    assert harness.status.tables()[0].paused
    assert harness.status.tables()[1] is before


def test_a_run_that_begins_while_the_rooms_are_asked_is_not_shown_for_ever(harness: DaemonHarness) -> None:
    """The rooms had named their tables already. When the run has ended, none of them names it, and nothing else of the
    table has changed.
    """

    class Interrupted(TableStatuses):
        """Another thread has its turn after the rooms have named their tables."""

        meanwhile: Callable[[], None] = lambda: None

        def _told_of(self) -> frozenset[TableId]:
            named = super()._told_of()
            self.meanwhile()
            return named

    statuses = copy(harness.status._statuses)
    statuses.__class__ = Interrupted
    assert isinstance(statuses, Interrupted)
    statuses._kept = {}
    run = a_run(table=TRIPS)
    statuses.meanwhile = lambda: statuses._active_runs.take_in(run)
    assert statuses.all()[0].active == (run,)

    statuses.meanwhile = lambda: None
    statuses._active_runs.let_go(run)

    assert statuses.all()[0].active == ()
