"""Writes that failed, as the timeline shows them."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.planners.formats.hudi.metadata.heartbeats import INTERVAL
from lakewarden.planners.formats.hudi.options.service_options import RollbackOptions
from lakewarden.planners.model.instant import Service
from tests.support.hudi.hudi_look import look, made, seen


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("action", ["deltacommit", "replacecommit"])
def test_a_write_that_was_rolled_back_failed_between_its_request_and_the_rollbacks(
    tmp_path: Path, version: int, action: str
) -> None:
    """The timeline does not say when in between."""
    table = made(tmp_path, version=version)
    write = table.begin_write(action)
    begun = table.clock.now()
    table.clock.advance(timedelta(minutes=5))
    rollback = table.roll_back(write, action)
    (failure,) = seen(table).writers.failures
    assert (failure.instant, failure.reason) == (write, f"rolled back by {rollback}")
    assert failure.begun_at is not None
    assert begun - timedelta(seconds=1) < failure.begun_at <= begun
    assert timedelta(minutes=5) <= failure.at - begun < timedelta(minutes=5, seconds=3)


def test_a_rolled_back_write_is_told_from_the_rollbacks_metadata_where_its_plan_is_gone(tmp_path: Path) -> None:
    """Requests are archived apart."""
    table = made(tmp_path)
    rollback = table.roll_back(table.begin_write())
    table.remove(f"{rollback}.rollback.requested")
    (completed,) = table.timeline.glob("*.rollback")
    table.put(completed.name, b'{"instantsRollback": [{"commitTime": "20260101000000000", "action": "deltacommit"}]}')
    (failure,) = seen(table).writers.failures
    assert failure.instant == "20260101000000000"


@pytest.mark.parametrize("action", ["compaction", "clustering", "logcompaction", "commit"])
def test_a_rewrite_that_is_rolled_back_is_no_writers_failure(tmp_path: Path, action: str) -> None:
    """It is executed again or given up. On a merge-on-read table every commit is a compaction."""
    table = made(tmp_path)
    table.roll_back(table.begin_write(), action)
    assert seen(table).writers.failures == ()


def test_a_clustering_that_is_executed_again_is_no_writers_failure_in_layout_1_either(tmp_path: Path) -> None:
    """There it is a replacecommit as some writes are, but one that the timeline still shows as what it is."""
    table = made(tmp_path, version=6)
    time = table.next_time()
    table.roll_back(time, "replacecommit")
    assert len(seen(table).writers.failures) == 1
    table.put(f"{time}.replacecommit.requested", b'{"clusteringPlan": {"inputGroups": []}}')
    assert seen(table).writers.failures == ()


def test_a_write_whose_heartbeat_ran_out_has_failed(tmp_path: Path) -> None:
    """It has not failed before, and it counts once, also when its rollback has begun."""
    table = made(tmp_path)
    write = table.begin_write()
    (in_flight,) = seen(table).writers.in_flight
    guarded_until = in_flight.guarded_until
    assert guarded_until is not None
    assert in_flight.last_beat is not None
    table.clock.advance(guarded_until - table.clock.now() - timedelta(seconds=1))
    assert seen(table).writers.failures == ()
    assert look(table).keep_until == guarded_until
    table.clock.advance(timedelta(seconds=1))
    (failure,) = seen(table).writers.failures
    assert (failure.instant, failure.reason) == (write, "its heartbeat expired")
    assert failure.at == in_flight.last_beat + INTERVAL, "it would have beaten again"


def test_dead_writes_wait_for_a_rollback_after_the_time_that_its_policy_sets(tmp_path: Path) -> None:
    """The time counts from the last sign of life of the first write that became silent."""
    table = made(tmp_path)
    table.begin_write()
    first = table.clock.now()
    table.clock.advance(timedelta(minutes=10))
    table.begin_write()
    options = RollbackOptions()
    counts = []
    for _ in range(4):
        backlog = seen(table, Service.ROLLBACK, options=options).backlogs[Service.ROLLBACK]
        counts.append(backlog.commits)
        table.clock.advance(timedelta(minutes=5))
    assert counts == [0, 1, 1, 2]
    assert backlog.since is not None
    assert abs(backlog.since - first) < timedelta(seconds=2)


def test_a_write_without_a_heartbeat_is_dead_only_by_its_age(tmp_path: Path) -> None:
    """It has failed, or its writer is not LAZY. Only the owner of the table knows how long such a writer may take."""
    table = made(tmp_path)
    table.begin_write(heartbeat=False)
    dead = []
    for options in (RollbackOptions(), RollbackOptions(without_heartbeat_after="1h")):
        dead.append(seen(table, Service.ROLLBACK, options=options).backlogs[Service.ROLLBACK].commits)
    table.clock.advance(timedelta(hours=2))
    for hours in ("1h", "1d", None):
        options = RollbackOptions(without_heartbeat_after=hours)
        dead.append(seen(table, Service.ROLLBACK, options=options).backlogs[Service.ROLLBACK].commits)

    assert dead == [0, 0, 1, 0, 0]


def test_a_half_written_rollback_plan_is_a_fault(tmp_path: Path) -> None:
    """Writers fail by it, too."""
    table = made(tmp_path)
    table.put(f"{table.next_time()}.rollback.requested", b"Obj\x01half")
    (fault,) = seen(table).faults
    assert ".rollback.requested" in fault
