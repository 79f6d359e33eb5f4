"""When a write in flight is known to be dead. A write that may be alive never is."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewarden.executors.contract import Assignment
from lakewarden.executors.programs.hudi.client.opened import RunObservations
from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.hudi.metadata.heartbeats import (
    FIRST_BEAT_WITHIN,
    GONE_FOR,
    INTERVAL,
    WINDOW,
    with_beats_seen,
)
from lakewarden.planners.formats.hudi.options.service_options import RollbackOptions
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import Policy, Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.planners.ports import Observation
from lakewarden.planners.storage import storage_for
from lakewarden.planners.triggers import NumCommits
from tests.support.hudi.hudi_look import made, seen
from tests.support.hudi.hudi_table import HudiTable, base_file, commit_content

_DEAD_AFTER = timedelta(minutes=3)


class Watched:
    """A table that is observed again and again, as the daemon does."""

    def __init__(self, table: HudiTable, *, lazy: bool = False) -> None:
        self.table = table
        self._registered = Table(
            id=TableId("trips"),
            format="hudi",
            location=str(table.folder),
            options=HudiTableOptions(writers="none", failed_writes="lazy" if lazy else None, dead_after="3m"),
            policies={Service.ROLLBACK: Policy(trigger=NumCommits(at_least=1), options=RollbackOptions())},
        )
        self._last: Observation | None = None

    def look(self, *, after: timedelta = timedelta(0)) -> TableView:
        """Observe the table after a while."""
        self.table.clock.advance(after)
        storage = storage_for(self._registered.location)
        self._last = HUDI.observe(self._registered, storage, self._last, now=self.table.clock.now())
        return self._last.view


def judged(view: TableView) -> tuple[bool, int, int]:
    """Return whether the write in flight may be alive, how many are rolled back, and how many writes have failed."""
    (write,) = view.writers.in_flight
    alive = write.may_be_alive(view.observed_at)
    return alive, view.backlogs[Service.ROLLBACK].commits, len(view.writers.failures)


def test_a_write_that_took_its_heartbeat_away_is_not_waited_for_and_rolled_back_minutes_later(tmp_path: Path) -> None:
    """A LAZY writer lost a conflict: its heartbeat was seen, is gone, and does not come back."""
    watched = Watched(made(tmp_path))
    time = watched.table.begin_write()
    assert judged(watched.look()) == (True, 0, 0)
    watched.table.fall_silent(time)

    assert judged(watched.look(after=timedelta(seconds=5))) == (True, 0, 0), "it may just have been completed"
    assert judged(watched.look(after=GONE_FOR)) == (False, 0, 1)
    assert judged(watched.look(after=_DEAD_AFTER - GONE_FOR - timedelta(seconds=10))) == (False, 0, 1)
    assert judged(watched.look(after=timedelta(seconds=10))) == (False, 1, 1)


def test_a_heartbeat_that_comes_back_is_one_of_a_writer_that_lives(tmp_path: Path) -> None:
    """It does not matter which client removed it."""
    watched = Watched(made(tmp_path))
    time = watched.table.begin_write()
    watched.look()
    watched.table.fall_silent(time)
    watched.look(after=timedelta(seconds=5))
    assert judged(watched.look(after=INTERVAL)) == (False, 0, 1)
    watched.table.beat(time)

    assert judged(watched.look(after=2 * INTERVAL + timedelta(seconds=30))) == (True, 0, 0)


def test_a_run_is_told_of_heartbeats_that_were_seen_before(tmp_path: Path) -> None:
    """A worker's first observation finds a write without a heartbeat. What the daemon saw of it proves it dead."""
    watched = Watched(made(tmp_path))
    time = watched.table.begin_write()
    (beating,) = watched.look().writers.in_flight
    watched.table.fall_silent(time)
    assert beating.last_beat is not None

    view = Watched(watched.table).look(after=WINDOW)
    told = with_beats_seen(view, {time: beating.last_beat}, gone={})

    assert [write.may_be_alive(view.observed_at) for write in view.writers.in_flight] == [True]
    assert [write.may_be_alive(view.observed_at) for write in told.writers.in_flight] == [False]
    assert told.timeline.writes_in_flight() == told.writers.in_flight


@pytest.mark.parametrize("told", [True, False], ids=["the daemon saw it go", "the run sees it gone"])
def test_a_write_that_took_its_heartbeat_away_is_not_waited_for_by_a_run(tmp_path: Path, told: bool) -> None:
    """Beside writers that fail each other, log compactions and clusterings were withdrawn again and again because of
    writes that had failed a minute before. The heartbeats that a run was told of guarded these for three minutes (run).
    """
    watched = Watched(made(tmp_path))
    time = watched.table.begin_write()
    (beating,) = watched.look().writers.in_flight
    watched.table.fall_silent(time)
    (silent,) = watched.look(after=timedelta(seconds=2)).writers.in_flight
    assert beating.last_beat is not None
    assert silent.stopped_at is not None
    assignment = Assignment(
        run=RunId("r1"),
        epoch=1,
        table=TableId("trips"),
        format="hudi",
        location=str(watched.table.folder),
        service=Service.LOG_COMPACTION,
        last_beats={time: beating.last_beat},
        stopped_beats={time: silent.stopped_at} if told else {},
    )
    looks, clock = RunObservations(), watched.table.clock

    def alive() -> bool:
        options = HudiTableOptions(writers="none")
        view = looks.observe(assignment, options, storage_for(assignment.location), now=clock.now())
        (write,) = view.writers.in_flight
        return write.may_be_alive(clock.now())

    assert alive()
    clock.advance(GONE_FOR)
    assert not alive()
    watched.table.beat(time)
    assert alive(), "one that beats again is alive whatever was believed of it"


def test_where_writers_are_declared_lazy_a_write_that_never_beat_is_dead_within_minutes(tmp_path: Path) -> None:
    """It came and lost between two observations."""
    watched = Watched(made(tmp_path), lazy=True)
    watched.table.begin_write(heartbeat=False)

    assert judged(watched.look(after=FIRST_BEAT_WITHIN)) == (True, 0, 0)
    assert judged(watched.look(after=GONE_FOR)) == (False, 0, 1)
    assert judged(watched.look(after=_DEAD_AFTER)) == (False, 1, 1)


@pytest.mark.parametrize("version", [6, 9])
@given(gaps=st.lists(st.integers(1, 3 * 24 * 3600), max_size=6), others=st.lists(st.booleans(), max_size=6))
@settings(max_examples=30, deadline=None)
def test_an_eager_write_is_never_taken_for_dead_however_long_it_is_idle(
    version: int, gaps: list[int], others: list[bool]
) -> None:
    """A Flink job without input keeps a write in flight for a weekend, whatever other writers do and show meanwhile."""
    with TemporaryDirectory() as folder:
        watched = Watched(made(Path(folder), version=version))
        eager = watched.table.begin_write(heartbeat=False)
        for number, gap in enumerate(gaps):
            view = watched.look(after=timedelta(seconds=gap))
            (write,) = (one for one in view.writers.in_flight if one.time == eager)
            assert write.may_be_alive(datetime.max.replace(tzinfo=view.observed_at.tzinfo))
            assert eager not in {failure.instant for failure in view.writers.failures}
            assert view.backlogs[Service.ROLLBACK].commits <= number
            if number < len(others):
                lost = watched.table.begin_write(heartbeat=True)
                watched.look()
                if others[number]:
                    watched.table.fall_silent(lost)
                else:
                    watched.table.commit_write(lost)
        dead = watched.look(after=timedelta(days=1)).backlogs[Service.ROLLBACK].commits
        assert dead == sum(others[: len(gaps)])


# The services that a failed write met, and that may have failed it.


PROFILE = {"operationType": "UPSERT", "partitionToWriteStats": {"p1": [{"fileId": "a"}]}}
"""What a write's inflight file says before it writes: where to."""


def clustering(table: HudiTable, partition: str) -> str:
    """Plan to cluster a file in a partition."""
    time = table.next_time()
    slices = [{"dataFilePath": "a-0_0-1-2_20260101000000000.parquet", "partitionPath": partition}]
    plan = {"clusteringPlan": {"inputGroups": [{"slices": slices, "metrics": {}}]}}
    table.put(f"{time}.clustering.requested", json.dumps(plan).encode())
    return time


def begun(table: HudiTable, *, says_where: bool = True) -> str:
    """Leave a write in flight that will fail."""
    time = table.begin_write()
    if says_where:
        table.put(f"{time}.deltacommit.inflight", json.dumps(PROFILE).encode())
    return time


def met(table: HudiTable) -> frozenset[str]:
    """Return what the write in flight has met when it is known to be dead."""
    table.clock.advance(WINDOW)
    (failure,) = seen(table).writers.failures
    assert failure.met is not None
    return failure.met


@pytest.mark.parametrize(
    ("partition", "says_where", "hit"), [("p1", True, True), ("p2", True, False), ("p2", False, True)]
)
def test_a_write_meets_a_clustering_of_its_partitions(
    tmp_path: Path, partition: str, says_where: bool, hit: bool
) -> None:
    """The plan may be older than the write, or newer. A write that does not name its partitions meets all."""
    table = made(tmp_path)
    before = clustering(table, partition)
    begun(table, says_where=says_where)
    after = clustering(table, partition)

    assert met(table) == (frozenset({before, after}) if hit else frozenset())


def test_a_write_does_not_meet_what_was_completed_before_it_or_planned_after_its_life(tmp_path: Path) -> None:
    """A minute after its last sign of life it was dead: the next heartbeat was due."""
    table = made(tmp_path)
    early = clustering(table, "p1")
    table.complete(early, "replacecommit", commit_content({"p1": [base_file("b", early)]}, operation="CLUSTER"))
    begun(table)
    table.clock.advance(timedelta(seconds=61))
    clustering(table, "p1")

    assert met(table) == frozenset()


@pytest.mark.parametrize(("version", "completed", "hit"), [(6, False, True), (9, False, False), (9, True, True)])
def test_a_write_meets_a_compaction_that_was_requested_after_it(
    tmp_path: Path, version: int, completed: bool, hit: bool
) -> None:
    """The compaction was completed before the write. Below version 8 a pending one is enough. The write has seen older
    ones.
    """
    table = made(tmp_path, version=version)
    table.plan_compaction()
    begun(table)
    plan = table.plan_compaction()
    if completed:
        table.complete(plan, "commit", commit_content({"p1": [base_file("a", plan)]}))

    assert met(table) == (frozenset({plan}) if hit else frozenset())
