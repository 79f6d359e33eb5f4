"""Poison: a table that kills the JVM it runs in. It is found out, put in quarantine, and the others go on."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from lakewarden.executors.contract import Failed, FailureKind, Outcome, Yielded
from lakewarden.planners.model.instant import Fate, Service, Step
from lakewarden.planners.model.table import TableId
from lakewarden.service.model.rows import ServiceStateRow
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.rules.settle import Consequence, Gone, Shown, clears, settle
from lakewarden.service.state.service_states import STRIKES, ServiceStates
from tests.support.daemon.daemon_harness import COMPACT_AND_CLEAN, TRIPS, DaemonHarness, HarnessClock, prepare
from tests.support.doubles.fake_pool import FakePool
from tests.support.pool.poison import DeadlyPool, Killed, PoisonedPool
from tests.support.store.memory_store import MemoryStore
from tests.support.values import a_run

GOOD = [TableId(f"good{number}") for number in range(9)]
BAD = TableId("bad")
A_WHILE = timedelta(hours=1)


def ten_tables(folder: Path) -> DaemonHarness:
    """Return a daemon of nine good tables and a bad one, all with something to compact."""
    harness = DaemonHarness(folder, names=[*GOOD[:4], BAD, *GOOD[4:]], slots=12)
    for table in harness.lakes:
        harness.write(3, table)
    return harness


def begin(harness: DaemonHarness, pool: FakePool) -> None:
    """Let a new daemon go about all tables at once."""
    harness.compose(pool)
    for table in harness.lakes:
        harness.commands.mark_dirty(table)


def service_state(harness: DaemonHarness, table: TableId) -> ServiceStateRow | None:
    """Return what the store holds against a table's compaction."""
    found = [
        row for row in harness.store.rows(ServiceStateRow) if (row.table, row.service) == (table, Service.COMPACTION)
    ]
    return found[0] if found else None


def is_found_out(harness: DaemonHarness) -> bool:
    """Whether the bad table is in quarantine."""
    against = service_state(harness, BAD)
    return against is not None and against.quarantined is not None


def the_others_are_well(harness: DaemonHarness) -> bool:
    """Whether every good table is compacted, and nothing is held against it."""
    return all(harness.lakes[table].log_files == 0 and service_state(harness, table) is None for table in GOOD)


def test_a_table_that_kills_its_jvm_is_put_in_quarantine_and_the_others_go_on(tmp_path: Path) -> None:
    """The first death has many suspects; every other one is the bad table's alone, and there are as many as strikes."""
    harness = ten_tables(tmp_path)
    pool = PoisonedPool(slots=12, clock=harness.clock, poisoned=[BAD])
    begin(harness, pool)

    harness.until(lambda: is_found_out(harness) and the_others_are_well(harness), within=A_WHILE)
    harness.for_a_while(timedelta(minutes=10))

    assert pool.most_beside > 0
    assert pool.deaths == 1 + STRIKES
    assert is_found_out(harness)
    for table in GOOD:
        assert harness.states(table=table).count(RunState.SUCCEEDED) == 1
        assert len(harness.states(table=table)) <= 2, "no good table was under way in more than one death"
    reason = service_state(harness, BAD)
    assert reason is not None
    assert reason.quarantined is not None
    assert reason.quarantined.startswith(f"{STRIKES} failures in a row, the last one: the fake worker was killed")


def test_a_table_that_kills_the_daemon_with_its_jvm_is_found_out_across_restarts(tmp_path: Path) -> None:
    """Who was under way in the same JVM is read from the rows: the same table is found out after as many deaths."""
    harness = ten_tables(tmp_path)
    lives = 0
    while not is_found_out(harness) and lives < 3 * STRIKES:
        lives += 1
        begin(harness, DeadlyPool(slots=12, clock=harness.clock, poisoned=[BAD]))
        try:
            harness.until(lambda: is_found_out(harness), within=A_WHILE)
        except Killed:
            continue
    harness.until(lambda: the_others_are_well(harness), within=A_WHILE)

    assert lives - 1 == 1 + STRIKES, "one death in company, and one for every strike"
    assert all(len(harness.states(table=table)) <= 2 for table in GOOD)


def test_two_bad_tables_are_both_found_out(tmp_path: Path) -> None:
    """Suspects take turns, each alone."""
    harness = DaemonHarness(tmp_path, names=["bad", "worse", "good0"], slots=4)
    pool = PoisonedPool(slots=4, clock=harness.clock, poisoned=[BAD, TableId("worse")])
    harness.compose(pool)
    for table in harness.lakes:
        harness.write(3, table)

    harness.until(
        lambda: all(s.quarantined for s in harness.store.rows(ServiceStateRow)) and is_found_out(harness),
        within=A_WHILE,
    )
    harness.until(lambda: harness.lakes[GOOD[0]].log_files == 0, within=A_WHILE)

    assert {row.table for row in harness.store.rows(ServiceStateRow)} == {BAD, "worse"}
    assert pool.deaths <= 2 * (1 + STRIKES)


def test_a_suspect_that_succeeds_alone_is_cleared_and_runs_beside_others_again(tmp_path: Path) -> None:
    """It was in bad company."""
    harness = DaemonHarness(tmp_path, names=["trips", "orders"])
    harness.write(3)
    harness.write(3, TableId("orders"))
    pool = PoisonedPool(slots=4, clock=harness.clock, poisoned=[])
    begin(harness, pool)
    harness.until(lambda: [run.step for run in harness.store.active()] == [Step.PLAN, Step.PLAN])

    pool.die()
    harness.turn()
    assert {row.table for row in harness.store.rows(ServiceStateRow) if row.suspect and not row.strikes} == set(
        harness.lakes
    )

    harness.until(lambda: not harness.store.rows(ServiceStateRow) and harness.at_rest())
    assert harness.states(table=TRIPS) == [RunState.FAILED, RunState.SUCCEEDED]


def test_a_jvm_that_we_kill_ourselves_leaves_no_suspects(tmp_path: Path) -> None:
    """The daemon lost its lease, or stops: none of the runs is to blame."""
    harness = DaemonHarness(tmp_path, names=["trips", "orders"])
    harness.write(3)
    harness.write(3, TableId("orders"))
    harness.until(lambda: [run.step for run in harness.store.active()] == [Step.PLAN, Step.PLAN])

    harness.pool.evict("its lease was not renewed")
    harness.turn()

    assert harness.store.rows(ServiceStateRow) == []
    harness.held_pool.release()
    harness.until(lambda: harness.states(table=TRIPS)[-1] is RunState.SUCCEEDED)


def test_a_joined_step_that_outlives_its_permit_is_struck_and_its_neighbours_are_lost_not_blamed(
    tmp_path: Path,
) -> None:
    """The permit says whose step it was. The others are asked for again at once, and run beside each other."""
    harness = DaemonHarness(tmp_path, names=["trips", "orders", "returns"], policies=COMPACT_AND_CLEAN)
    prepare(harness.lakes[TRIPS])
    hanging = harness.until_executing(Step.COMMIT, Service.CLEAN)
    others = [TableId("orders"), TableId("returns")]
    harness.held_pool.hold(Service.COMPACTION, Step.EXECUTE)
    for other in others:
        harness.write(3, other)
    harness.until(lambda: harness.held_pool.under_way.count((Service.COMPACTION, Step.EXECUTE)) >= len(others))

    harness.pool.expire(hanging.id)
    harness.turn()

    against = [row for row in harness.store.rows(ServiceStateRow) if row.strikes or row.suspect or row.rest_until]
    assert [(row.table, row.service, row.strikes, row.suspect) for row in against] == [(TRIPS, Service.CLEAN, 1, False)]
    assert [harness.states(table=other)[0] for other in others] == [RunState.CANCELLED] * 2
    assert len(harness.held_pool.under_way) >= len(others), "they are at it again, beside each other"
    harness.held_pool.release()
    harness.until(lambda: all(harness.lakes[other].log_files == 0 for other in others))


def test_a_suspect_whose_worker_lives_to_tell_of_a_failure_is_cleared() -> None:
    """It took the step that works, failed, and the JVM lives: it holds nobody up any more, and its strike counts."""
    service_states = ServiceStates(store=MemoryStore(clock=HarnessClock()), clock=HarnessClock(), rng=random.Random(0))
    death = Gone(reason="killed", proved=True, consequence=Consequence.SUSPECT)
    failure = Failed(kind=FailureKind.UNKNOWN, reason="it broke", step=Step.EXECUTE)
    executing = a_run(state=RunState.RUNNING, step=Step.EXECUTE, instant="00000020", epoch=1)
    pending = Shown(fate=Fate.PENDING)

    def end(ending: Outcome | Gone, run: Run) -> None:
        settlement = settle(ending, pending, run)
        service_states.ended(run.table, run.service, settlement, None, cleared=clears(ending, run))

    end(death, executing)
    end(replace(failure, step=Step.PLAN), replace(executing, step=Step.PLAN))
    end(Yielded(reason="a writer is busy"), replace(executing, step=Step.PLAN))
    assert service_states.last_runs().suspects == {(executing.table, executing.service)}, (
        "it has not done again what it did then"
    )

    end(failure, executing)
    assert not service_states.last_runs().suspects
