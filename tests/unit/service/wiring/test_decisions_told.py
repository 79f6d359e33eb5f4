"""A decision is reported when it changes. A start alone changes none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lakewarden.executors.contract import Capacity
from lakewarden.planners.model.decision import Blocked
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.proof import Check
from lakewarden.planners.model.table import ActWhen, TableId
from lakewarden.service.model.rows import DecisionRow, ServiceStateRow
from lakewarden.service.model.run import RunState
from tests.support.daemon.daemon_harness import COMPACT_AND_CLEAN, TRIPS, DaemonHarness
from tests.support.doubles.fake_pool import FakePool
from tests.support.store.memory_store import MemoryStore


class CountingStore(MemoryStore):
    """Counts the decisions that are written, the transactions that write them, and the times that all rows are read.

    While it is `away` it keeps no decision.
    """

    written = transactions = readings = 0
    away = False

    def decided(self, rows: Sequence[DecisionRow], *, changes: Sequence[DecisionRow] = ()) -> None:
        if self.away:
            raise TemporaryError("the disk is full")
        self.written += len(rows)
        self.transactions += 1
        super().decided(rows, changes=changes)

    def rows(self, kind: type[Any]) -> Sequence[Any]:
        self.readings += kind is ServiceStateRow
        return super().rows(kind)


def test_what_a_turn_decides_on_many_tables_is_one_transaction(tmp_path: Path) -> None:
    """A database syncs its disk for each. Ten thousand tables are decided on at each start."""
    store = CountingStore()
    names = [TableId(name) for name in "abcdefgh"]
    harness = DaemonHarness(tmp_path, names=names, store=store)
    harness.for_a_while()
    written, transactions = store.written, store.transactions

    for name in names:
        harness.write(1, name)
    harness.for_a_while(timedelta(seconds=1))

    assert store.written - written == len(names)
    assert store.transactions - transactions == 1


def test_a_run_begins_after_the_decision_on_it_is_stored(tmp_path: Path) -> None:
    """Without a store nothing is told and nothing runs. Then the tables are decided on again: no due run is lost."""
    store = CountingStore()
    harness = DaemonHarness(tmp_path, names=("a", "b"), store=store)
    harness.for_a_while()
    harness.recorded.lines.clear()
    harness.recorded.decisions.clear()
    before = harness.decision(Service.COMPACTION, TableId("a"))

    store.away = True
    for name in ("a", "b"):
        harness.write(3, TableId(name))
    harness.for_a_while()
    assert (harness.recorded.lines, harness.recorded.decisions, harness.runs()) == ([], [], [])
    assert harness.decision(Service.COMPACTION, TableId("a")) == before

    store.away = False
    harness.for_a_while(timedelta(minutes=2))
    assert harness.states() == [RunState.SUCCEEDED] * 2


@pytest.mark.parametrize("alone", [True, False])
def test_a_daemon_that_is_alone_on_its_store_reads_once_an_hour_what_it_wrote_itself(
    tmp_path: Path, *, alone: bool
) -> None:
    """Replicas read what others have written, three times in a lease. Of 10,000 tables that are 20,000 rows."""
    store = CountingStore()
    harness = DaemonHarness(tmp_path, store=store, alone=alone)
    harness.for_a_while()
    readings = store.readings

    harness.for_a_while(timedelta(minutes=2))
    assert store.readings - readings == 0 if alone else store.readings - readings >= 10

    if alone:
        harness.for_a_while(timedelta(hours=1))
        assert store.readings - readings == 1


def test_a_restart_reports_no_decision_that_the_store_has_already(tmp_path: Path) -> None:
    """10,000 blocked tables do not fill the log at each start, and their rows are not written again."""
    store = CountingStore()
    harness = DaemonHarness(tmp_path, policies=COMPACT_AND_CLEAN, store=store)
    harness.status.commands.pause(TRIPS, reason="a test")
    harness.for_a_while()
    assert [type(decision) for _, decision in harness.recorded.decisions[-2:]] == [Blocked, Blocked]
    written = store.written

    harness.compose()
    harness.for_a_while()

    assert isinstance(harness.decision(Service.CLEAN), Blocked)
    assert harness.recorded.decisions == []
    assert store.written == written


class CountingPool(FakePool):
    """Counts who asks for its slots, as the proof of a table does."""

    asked = 0

    def capacity(self) -> Capacity:
        self.asked += 1
        return super().capacity()


def test_the_proof_of_a_table_is_judged_once_for_all_its_services(tmp_path: Path) -> None:
    """It looks at all instants. Tables are decided on one after the other, on the thread that keeps runs alive."""
    pool = CountingPool()
    harness = DaemonHarness(tmp_path, policies=COMPACT_AND_CLEAN, more_pools={"counting": pool})
    harness.write(1)
    harness.for_a_while()
    status = harness.status.table(TRIPS)
    assert status is not None
    assert status.view is not None
    before = pool.asked
    requests = harness.status._statuses._requests
    requests.consider(replace(status.table, act_when=ActWhen.PROVED, proof_without=frozenset(Check)), status.view)

    assert pool.asked - before == 1


def test_what_changed_while_no_daemon_ran_is_reported_at_the_start(tmp_path: Path) -> None:
    """The log has the end of each block whose beginning it has."""
    harness = DaemonHarness(tmp_path, policies=COMPACT_AND_CLEAN)
    harness.status.commands.pause(TRIPS, reason="a test")
    harness.for_a_while()
    assert harness.recorded.unblocks == []
    harness.store.resume(TRIPS)

    harness.compose()
    harness.for_a_while()

    assert {service for service, _ in harness.recorded.decisions} == set(COMPACT_AND_CLEAN)
    assert {service for service, _ in harness.recorded.unblocks} == set(COMPACT_AND_CLEAN)


def test_the_history_has_a_row_for_each_change_and_none_for_other_numbers_in_a_reason(tmp_path: Path) -> None:
    """Each commit of a writer changes the numbers in a reason. That is no change of the decision."""
    harness = DaemonHarness(tmp_path, policies=COMPACT_AND_CLEAN)
    harness.for_a_while()
    before = [one.decision.decision for one in harness.store.decision_changes(TRIPS)]
    assert before == ["NotDue"] * len(COMPACT_AND_CLEAN)
    first = harness.decision(Service.CLEAN)

    harness.write(1)
    harness.for_a_while()

    assert harness.decision(Service.CLEAN) != first
    assert len(harness.store.decision_changes(TRIPS)) == len(before)

    harness.status.commands.pause(TRIPS, reason="a test")
    harness.for_a_while()
    [clean, _] = harness.store.decision_changes(TRIPS, service=Service.CLEAN)
    assert (clean.decision.decision, clean.decision.reason) == ("Blocked", harness.decision(Service.CLEAN).reason)
    begun = [one for one in harness.store.decisions_at(TRIPS, harness.clock.now()) if one.until is None]
    assert {one.decision.decision for one in begun} == {"Blocked"}
