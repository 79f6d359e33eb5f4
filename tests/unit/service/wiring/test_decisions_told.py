"""A decision is reported when it changes. A start alone changes none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from lakewarden.executors.contract import Capacity
from lakewarden.planners.model.decision import Blocked
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.proof import Check
from lakewarden.planners.model.table import ActWhen
from lakewarden.service.model.rows import DecisionRow
from tests.support.daemon.daemon_harness import COMPACT_AND_CLEAN, TRIPS, DaemonHarness
from tests.support.doubles.fake_pool import FakePool
from tests.support.store.memory_store import MemoryStore


class CountingStore(MemoryStore):
    """Counts the decisions that are written."""

    written = 0

    def decided(self, rows: Sequence[DecisionRow], *, changes: Sequence[DecisionRow] = ()) -> None:
        self.written += len(rows)
        super().decided(rows, changes=changes)


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
