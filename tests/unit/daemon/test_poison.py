"""Poison: a table that kills the JVM it runs in. It is found out, put in quarantine, and the others go on."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.executors.contract import Failed, FailureKind, Outcome, Step, Yielded
from lakewarden.executors.fake_pool import FakePool
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import TableId
from lakewarden.planners.model.timeline import Fate
from lakewarden.service.model.rows import StandingRow
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.rules.settle import Aftermath, Gone, Shown, clears, settle
from lakewarden.service.state.backoff import STRIKES, Backoffs
from lakewarden.service.store.memory import MemoryStore
from tests.support.poison import DeadlyPool, Killed, PoisonedPool
from tests.support.road import COMPACT_AND_CLEAN, TRIPS, Road, RoadClock, prepare
from tests.support.values import a_run

GOOD = [TableId(f"good{number}") for number in range(9)]
BAD = TableId("bad")
A_WHILE = timedelta(hours=1)


def ten_tables(folder: Path) -> Road:
    """Return a road of nine good tables and a bad one, all with something to compact."""
    road = Road(folder, names=[*GOOD[:4], BAD, *GOOD[4:]], slots=12)
    for table in road.lakes:
        road.write(3, table)
    return road


def begin(road: Road, pool: FakePool) -> None:
    """Let a new daemon go about all tables at once."""
    road.compose(pool)
    for table in road.lakes:
        road.inbox.mark_dirty(table)


def standing(road: Road, table: TableId) -> StandingRow | None:
    """Return what the store holds against a table's compaction."""
    found = [row for row in road.store.standings() if (row.table, row.service) == (table, Service.COMPACTION)]
    return found[0] if found else None


def is_found_out(road: Road) -> bool:
    """Whether the bad table is in quarantine."""
    against = standing(road, BAD)
    return against is not None and against.quarantined is not None


def the_others_are_well(road: Road) -> bool:
    """Whether every good table is compacted, and nothing is held against it."""
    return all(road.lakes[table].log_files == 0 and standing(road, table) is None for table in GOOD)


def test_a_table_that_kills_its_jvm_is_put_in_quarantine_and_the_others_go_on(tmp_path: Path) -> None:
    """The first death has many suspects; every other one is the bad table's alone, and there are as many as strikes."""
    road = ten_tables(tmp_path)
    pool = PoisonedPool(slots=12, clock=road.clock, poisoned=[BAD])
    begin(road, pool)

    road.until(lambda: is_found_out(road) and the_others_are_well(road), within=A_WHILE)
    road.for_a_while(timedelta(minutes=10))

    assert pool.most_beside > 0
    assert pool.deaths == 1 + STRIKES
    assert is_found_out(road)
    for table in GOOD:
        assert road.states(table=table).count(RunState.SUCCEEDED) == 1
        assert len(road.states(table=table)) <= 2, "no good table was under way in more than one death"
    reason = standing(road, BAD)
    assert reason is not None
    assert reason.quarantined is not None
    assert reason.quarantined.startswith(f"{STRIKES} failures in a row, the last one: the fake worker was killed")


def test_a_table_that_kills_the_daemon_with_its_jvm_is_found_out_across_restarts(tmp_path: Path) -> None:
    """Who was under way in the same JVM is read from the rows: the same table is found out after as many deaths."""
    road = ten_tables(tmp_path)
    lives = 0
    while not is_found_out(road) and lives < 3 * STRIKES:
        lives += 1
        begin(road, DeadlyPool(slots=12, clock=road.clock, poisoned=[BAD]))
        try:
            road.until(lambda: is_found_out(road), within=A_WHILE)
        except Killed:
            continue
    road.until(lambda: the_others_are_well(road), within=A_WHILE)

    assert lives - 1 == 1 + STRIKES, "one death in company, and one for every strike"
    assert all(len(road.states(table=table)) <= 2 for table in GOOD)


def test_two_bad_tables_are_both_found_out(tmp_path: Path) -> None:
    """Suspects take turns, each alone."""
    road = Road(tmp_path, names=["bad", "worse", "good0"], slots=4)
    pool = PoisonedPool(slots=4, clock=road.clock, poisoned=[BAD, TableId("worse")])
    road.compose(pool)
    for table in road.lakes:
        road.write(3, table)

    road.until(lambda: all(s.quarantined for s in road.store.standings()) and is_found_out(road), within=A_WHILE)
    road.until(lambda: road.lakes[GOOD[0]].log_files == 0, within=A_WHILE)

    assert {row.table for row in road.store.standings()} == {BAD, "worse"}
    assert pool.deaths <= 2 * (1 + STRIKES)


def test_a_suspect_that_succeeds_alone_is_cleared_and_runs_beside_others_again(tmp_path: Path) -> None:
    """It was in bad company."""
    road = Road(tmp_path, names=["trips", "orders"])
    road.write(3)
    road.write(3, TableId("orders"))
    pool = PoisonedPool(slots=4, clock=road.clock, poisoned=[])
    begin(road, pool)
    road.until(lambda: [run.step for run in road.store.active()] == [Step.PLAN, Step.PLAN])

    pool.die()
    road.turn()
    assert {row.table for row in road.store.standings() if row.suspect and not row.strikes} == set(road.lakes)

    road.until(lambda: not road.store.standings() and road.at_rest())
    assert road.states(table=TRIPS) == [RunState.FAILED, RunState.SUCCEEDED]


def test_a_jvm_that_we_kill_ourselves_leaves_no_suspects(tmp_path: Path) -> None:
    """The daemon lost its lease, or stops: none of the runs is to blame."""
    road = Road(tmp_path, names=["trips", "orders"])
    road.write(3)
    road.write(3, TableId("orders"))
    road.until(lambda: [run.step for run in road.store.active()] == [Step.PLAN, Step.PLAN])

    road.pool.evict("its lease was not renewed")
    road.turn()

    assert road.store.standings() == []
    road.held_pool.release()
    road.until(lambda: road.states(table=TRIPS)[-1] is RunState.SUCCEEDED)


def test_a_joined_step_that_outlives_its_permit_is_struck_and_its_neighbours_are_lost_not_blamed(
    tmp_path: Path,
) -> None:
    """The permit says whose step it was. The others are asked for again at once, and run beside each other."""
    road = Road(tmp_path, names=["trips", "orders", "returns"], policies=COMPACT_AND_CLEAN)
    prepare(road.lakes[TRIPS])
    hanging = road.until_executing(Step.COMMIT, Service.CLEAN)
    others = [TableId("orders"), TableId("returns")]
    road.held_pool.hold(Service.COMPACTION, Step.EXECUTE)
    for other in others:
        road.write(3, other)
    road.until(lambda: road.held_pool.under_way.count((Service.COMPACTION, Step.EXECUTE)) >= len(others))

    road.pool.expire(hanging.id)
    road.turn()

    against = [row for row in road.store.standings() if row.strikes or row.suspect or row.rest_until]
    assert [(row.table, row.service, row.strikes, row.suspect) for row in against] == [(TRIPS, Service.CLEAN, 1, False)]
    assert [road.states(table=other)[0] for other in others] == [RunState.CANCELLED] * 2
    assert len(road.held_pool.under_way) >= len(others), "they are at it again, beside each other"
    road.held_pool.release()
    road.until(lambda: all(road.lakes[other].log_files == 0 for other in others))


def test_a_suspect_whose_worker_lives_to_tell_of_a_failure_is_cleared() -> None:
    """It took the step that works, failed, and the JVM lives: it holds nobody up any more, and its strike counts."""
    standings = Backoffs(store=MemoryStore(clock=RoadClock()), clock=RoadClock(), dice=random.Random(0))
    death = Gone(reason="killed", proved=True, aftermath=Aftermath.SUSPECT)
    failure = Failed(kind=FailureKind.UNKNOWN, reason="it broke", step=Step.EXECUTE)
    executing = a_run(state=RunState.RUNNING, step=Step.EXECUTE, instant="00000020", epoch=1)
    pending = Shown(fate=Fate.PENDING)

    def end(ending: Outcome | Gone, run: Run) -> None:
        settlement = settle(ending, pending, run)
        standings.ended(run.table, run.service, settlement, None, cleared=clears(ending, run))

    end(death, executing)
    end(replace(failure, step=Step.PLAN), replace(executing, step=Step.PLAN))
    end(Yielded(reason="a writer is busy"), replace(executing, step=Step.PLAN))
    assert standings.suspects() == {(executing.table, executing.service)}, "it has not done again what it did then"

    end(failure, executing)
    assert not standings.suspects()


@pytest.mark.parametrize("deaths", [1, 2])
def test_a_table_that_dies_alone_is_struck_for_each_death(tmp_path: Path, deaths: int) -> None:
    """With nobody beside it, nobody else can have been it."""
    road = Road(tmp_path)
    pool = PoisonedPool(slots=4, clock=road.clock, poisoned=[TRIPS])
    road.compose(pool)
    road.write(3)

    road.until(lambda: pool.deaths == deaths)
    road.turn()

    against = standing(road, TRIPS)
    assert against is not None
    assert (against.strikes, against.suspect) == (deaths, False)
