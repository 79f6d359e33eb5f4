"""A table with writers that were not seen to hold its lock, in the whole daemon: nothing of ours is committed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakewarden.planners.lock_proof import LIVE_FOR, ProofState
from lakewarden.planners.model.decision import Blocked
from lakewarden.planners.model.instant import Service, Step
from lakewarden.planners.model.proof import LockReading, LockSample
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.ports import Observation, Storage
from lakewarden.service.model.rows import LockProofRow
from lakewarden.service.model.run import RunState
from lakewarden.service.reporting.explain.assembly import explain
from lakewarden.service.reporting.explain.text import written_out
from lakewarden.service.state import lock_proofs
from tests.support.daemon.daemon_harness import START, TRIPS, DaemonHarness
from tests.support.doubles.fake import FAKE

LOCK = "/hudi/trips of ZooKeeper zk:2181"


@dataclass
class Locked:
    """The fake format, with a lock that counts how often it was let go of."""

    taken: int = 0
    number: str = "1"
    failure: str | None = None
    _fake: Any = field(default=FAKE)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fake, name)

    def observe(self, table: Table, storage: Storage, previous: Observation | None, *, now: datetime) -> Observation:
        """Return the table, with the lock around it."""
        before = self.sample()
        found = FAKE.observe(table, storage, previous, now=now)
        look = LockReading(name=LOCK, before=before, after=self.sample(), failure=self.failure)
        return replace(found, view=replace(found.view, lock=look))

    def sample(self) -> LockSample | None:
        """Return what the lock shows."""
        if self.failure is not None:
            return None
        since = START - timedelta(days=1)
        return LockSample(number=self.number, since=since, mark=str(self.taken), taken=self.taken)


def make_harness(folder: Path, lock: Locked, **news: Any) -> DaemonHarness:
    """Return a daemon over one table under this lock."""
    return DaemonHarness(folder, formats={"fake": lock}, **news)


def commit(harness: DaemonHarness, lock: Locked | None, *, times: int = 1) -> None:
    """Let a writer commit a few times, each seen for itself; with the lock, or without."""
    for _ in range(times):
        if lock is not None:
            lock.taken += 1
        harness.write(1)
        harness.for_a_while(timedelta(seconds=2))


def verdict(harness: DaemonHarness) -> ProofState:
    """Return what the daemon knows."""
    evidence = harness.status._statuses._proofs.evidence(TRIPS)
    assert evidence is not None
    return evidence.verdict


@pytest.fixture
def lock() -> Locked:
    """Return a lock that was never taken."""
    return Locked()


def explained(harness: DaemonHarness) -> str:
    """Return what `explain` prints."""
    status = harness.status.table(TRIPS)
    assert status is not None
    decided = harness.store.decisions(TRIPS)
    return written_out(explain(status, decided=decided, last_runs={}, waiting={}, now=harness.clock.now()))


def test_beside_a_writer_with_another_lock_nothing_of_ours_runs(tmp_path: Path, lock: Locked) -> None:
    """Not before its first commit is seen, and not after; it is said by name."""
    harness = make_harness(tmp_path, lock)
    commit(harness, None, times=9)

    assert harness.runs() == []
    assert verdict(harness) is ProofState.DISPROVED
    decision = harness.decision(Service.COMPACTION)
    assert isinstance(decision, Blocked)
    assert f"the table's writers do not all use the lock {LOCK}" in decision.reason
    assert f"{LOCK}: NOT USED by the writers" in explained(harness)


def test_once_enough_commits_were_seen_under_the_lock_everything_runs(tmp_path: Path, lock: Locked) -> None:
    """Until then it is said how many are missing."""
    harness = make_harness(tmp_path, lock)
    commit(harness, lock, times=3)
    assert harness.runs() == []
    assert isinstance(decision := harness.decision(Service.COMPACTION), Blocked)
    assert "of 3 commits were seen under it" in decision.reason

    commit(harness, lock, times=2)
    harness.until(lambda: RunState.SUCCEEDED in harness.states())
    assert f"{LOCK}: proved" in explained(harness)


def test_a_restarted_daemon_remembers_the_proof_and_what_speaks_against_it(tmp_path: Path, lock: Locked) -> None:
    """A writer may commit once a day, and what we took ourselves before is counted for nobody."""
    harness = make_harness(tmp_path, lock)
    commit(harness, lock, times=6)
    harness.until(lambda: RunState.SUCCEEDED in harness.states())
    lock.taken += 5  # by our runs
    harness.clock.advance(timedelta(days=1))
    harness.compose()
    harness.for_a_while(timedelta(seconds=20))
    assert verdict(harness) is ProofState.PROVED

    commit(harness, None)
    assert verdict(harness) is ProofState.DISPROVED
    harness.compose()
    harness.for_a_while(timedelta(seconds=20))
    assert verdict(harness) is ProofState.DISPROVED
    assert isinstance(harness.decision(Service.COMPACTION), Blocked)


def test_a_person_who_has_mended_the_writers_resumes_the_table(tmp_path: Path, lock: Locked) -> None:
    """Then it is judged anew, by as many commits as at first."""
    harness = make_harness(tmp_path, lock)
    commit(harness, lock)
    commit(harness, None, times=4)
    assert verdict(harness) is ProofState.DISPROVED

    answer = harness.status.commands.resume(TRIPS)
    harness.answered(answer)
    commit(harness, lock, times=2)
    assert harness.runs() == []
    commit(harness, lock, times=2)
    assert verdict(harness) is ProofState.PROVED


def test_a_commit_without_the_lock_in_the_middle_of_a_run_lets_it_commit_nothing(tmp_path: Path, lock: Locked) -> None:
    """The next permit is refused."""
    harness = make_harness(tmp_path, lock)
    harness.held_pool.hold(Service.COMPACTION, Step.EXECUTE)
    commit(harness, lock, times=5)
    run = harness.until_executing(Step.EXECUTE)
    harness.write(1)
    harness.held_pool.release()
    harness.until(lambda: not harness.store.active())

    ended = harness.store.run(run.id)
    assert ended is not None
    assert ended.state is RunState.YIELDED
    assert "do not all use the lock" in (ended.outcome or "")
    assert harness.completed(Service.COMPACTION) == []


def test_a_table_at_rest_whose_lock_was_taken_for_each_commit_need_not_wait(tmp_path: Path, lock: Locked) -> None:
    """Nobody is there to be watched: what the lock shows of the past is believed, and kept."""
    harness = make_harness(tmp_path, lock)
    harness.lake.write()
    harness.lake.write()
    harness.lake.write()
    lock.taken = 9
    harness.clock.advance(LIVE_FOR + timedelta(minutes=1))

    harness.until(lambda: RunState.SUCCEEDED in harness.states())
    (row,) = harness.store.rows(LockProofRow)
    assert (row.verdict, row.witnessed) == ("proved", 0)


def test_a_writer_that_goes_before_it_was_seen_often_enough_leaves_no_table_blocked_for_ever(
    tmp_path: Path, lock: Locked
) -> None:
    """Nothing changes on the table any more, and nobody asks: it is thought of again all the same."""
    harness = make_harness(tmp_path, lock)
    commit(harness, lock, times=3)
    assert harness.runs() == []

    harness.until(lambda: RunState.SUCCEEDED in harness.states(), within=LIVE_FOR + timedelta(minutes=1))


def test_a_lock_service_that_is_away_blocks_an_unproved_table_with_its_own_words(tmp_path: Path, lock: Locked) -> None:
    """And takes a proof from no other."""
    lock.failure = "ZooKeeper at zk:2181 does not answer: refused"
    harness = make_harness(tmp_path, lock)
    commit(harness, None, times=4)
    assert isinstance(decision := harness.decision(Service.COMPACTION), Blocked)
    assert "ZooKeeper at zk:2181 does not answer" in decision.reason

    lock.failure = None
    commit(harness, lock, times=5)
    harness.until(lambda: RunState.SUCCEEDED in harness.states())
    lock.failure = "ZooKeeper at zk:2181 does not answer: refused"
    commit(harness, lock, times=4)
    harness.until(lambda: harness.states().count(RunState.SUCCEEDED) > 1)


def test_only_so_many_tables_are_looked_at_closely_at_a_time(
    tmp_path: Path, lock: Locked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of tables that are served for the first time must not be looked at four times a second each."""
    monkeypatch.setattr(lock_proofs, "MOST_CLOSELY", 2)
    names = ("a", "b", "c", "d")
    harness = make_harness(tmp_path, lock, names=names)
    for name in names:
        lock.taken += 1
        harness.write(1, TableId(name))
    harness.for_a_while(timedelta(seconds=20))

    proofs = harness.status._statuses._proofs
    assert sum(proofs.polls_again_within(TableId(name)) is not None for name in names) == 2


def test_where_several_write_a_proved_table_goes_on_being_looked_at_closely(tmp_path: Path, lock: Locked) -> None:
    """One that seldom commits may have another lock than those that do so all the time."""
    harness = make_harness(tmp_path, lock)
    commit(harness, lock, times=4)
    proofs = harness.status._statuses._proofs
    assert verdict(harness) is ProofState.PROVED
    assert proofs.polls_again_within(TRIPS) is None

    harness.lake.begin_write()
    harness.lake.begin_write()
    harness.commands.mark_dirty(TRIPS)
    harness.for_a_while(timedelta(seconds=2))
    assert proofs.polls_again_within(TRIPS) is not None
