"""A table whose writers were not seen to hold its lock, on the whole road: nothing of ours is committed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakewarden.executors.contract import Step
from lakewarden.planners.formats.fake import FAKE
from lakewarden.planners.lock_proof import LIVE_FOR, Verdict
from lakewarden.planners.model.decision import Blocked
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.lock import LockLook, LockSight
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.ports import Observation, Storage
from lakewarden.service.model.run import RunState
from lakewarden.service.reporting.explain.assembly import explain
from lakewarden.service.reporting.explain.text import written_out
from lakewarden.service.state import lock_proofs
from tests.support.road import START, TRIPS, Road

LOCK = "/hudi/trips of ZooKeeper zk:2181"


@dataclass
class Locked:
    """The fake format, with a lock that counts how often it was let go of."""

    taken: int = 0
    number: str = "1"
    trouble: str | None = None
    _fake: Any = field(default=FAKE)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fake, name)

    def observe(self, table: Table, storage: Storage, previous: Observation | None, *, now: datetime) -> Observation:
        """Return the table, with the lock around it."""
        before = self.sight()
        found = FAKE.observe(table, storage, previous, now=now)
        look = LockLook(name=LOCK, before=before, after=self.sight(), trouble=self.trouble)
        return replace(found, view=replace(found.view, lock=look))

    def sight(self) -> LockSight | None:
        """Return what the lock shows."""
        if self.trouble is not None:
            return None
        since = START - timedelta(days=1)
        return LockSight(number=self.number, since=since, mark=str(self.taken), taken=self.taken)


def a_road(folder: Path, lock: Locked, **news: Any) -> Road:
    """Return a road over one table under this lock."""
    return Road(folder, formats={"fake": lock}, **news)


def commit(road: Road, lock: Locked | None, *, times: int = 1) -> None:
    """Let a writer commit a few times, each seen for itself; with the lock, or without."""
    for _ in range(times):
        if lock is not None:
            lock.taken += 1
        road.write(1)
        road.for_a_while(timedelta(seconds=2))


def verdict(road: Road) -> Verdict:
    """Return what the daemon knows."""
    evidence = road.status._proofs.evidence(TRIPS)
    assert evidence is not None
    return evidence.verdict


@pytest.fixture
def lock() -> Locked:
    """Return a lock that was never taken."""
    return Locked()


def explained(road: Road) -> str:
    """Return what `explain` prints."""
    status = road.status.table(TRIPS)
    assert status is not None
    decided = road.store.decisions(TRIPS)
    return written_out(explain(status, decided=decided, last_runs={}, waiting={}, now=road.clock.now()))


def test_beside_a_writer_with_another_lock_nothing_of_ours_runs(tmp_path: Path, lock: Locked) -> None:
    """Not before its first commit is seen, and not after; it is said by name."""
    road = a_road(tmp_path, lock)
    commit(road, None, times=9)

    assert road.runs() == []
    assert verdict(road) is Verdict.DISPROVED
    decision = road.decision(Service.COMPACTION)
    assert isinstance(decision, Blocked)
    assert f"the table's writers use another lock than {LOCK}, or none" in decision.reason
    assert f"{LOCK}: NOT USED by the writers" in explained(road)


def test_once_enough_commits_were_seen_under_the_lock_everything_runs(tmp_path: Path, lock: Locked) -> None:
    """Until then it is said how many are missing."""
    road = a_road(tmp_path, lock)
    commit(road, lock, times=3)
    assert road.runs() == []
    assert isinstance(decision := road.decision(Service.COMPACTION), Blocked)
    assert "of 3 commits were seen under it" in decision.reason

    commit(road, lock, times=2)
    road.until(lambda: RunState.SUCCEEDED in road.states())
    assert f"{LOCK}: proved" in explained(road)


def test_a_restarted_daemon_remembers_the_proof_and_what_speaks_against_it(tmp_path: Path, lock: Locked) -> None:
    """A writer may commit once a day, and what we took ourselves before is counted for nobody."""
    road = a_road(tmp_path, lock)
    commit(road, lock, times=6)
    road.until(lambda: RunState.SUCCEEDED in road.states())
    lock.taken += 5  # by our runs
    road.clock.advance(timedelta(days=1))
    road.compose()
    road.for_a_while(timedelta(seconds=20))
    assert verdict(road) is Verdict.PROVED

    commit(road, None)
    assert verdict(road) is Verdict.DISPROVED
    road.compose()
    road.for_a_while(timedelta(seconds=20))
    assert verdict(road) is Verdict.DISPROVED
    assert isinstance(road.decision(Service.COMPACTION), Blocked)


def test_a_person_who_has_mended_the_writers_resumes_the_table(tmp_path: Path, lock: Locked) -> None:
    """Then it is judged anew, by as many commits as at first."""
    road = a_road(tmp_path, lock)
    commit(road, lock)
    commit(road, None, times=4)
    assert verdict(road) is Verdict.DISPROVED

    answer = road.status.resume(TRIPS)
    road.answered(answer)
    commit(road, lock, times=2)
    assert road.runs() == []
    commit(road, lock, times=2)
    assert verdict(road) is Verdict.PROVED


def test_a_commit_without_the_lock_in_the_middle_of_a_run_lets_it_commit_nothing(tmp_path: Path, lock: Locked) -> None:
    """The next permit is refused."""
    road = a_road(tmp_path, lock)
    road.held_pool.hold(Service.COMPACTION, Step.EXECUTE)
    commit(road, lock, times=5)
    run = road.until_executing(Step.EXECUTE)
    road.write(1)
    road.held_pool.release()
    road.until(lambda: not road.store.active())

    ended = road.store.run(run.id)
    assert ended is not None
    assert ended.state is RunState.CANCELLED
    assert "use another lock" in (ended.outcome or "")
    assert road.completed(Service.COMPACTION) == []


def test_a_table_at_rest_whose_lock_was_taken_for_each_commit_need_not_wait(tmp_path: Path, lock: Locked) -> None:
    """Nobody is there to be watched: what the lock shows of the past is believed, and kept."""
    road = a_road(tmp_path, lock)
    road.lake.write()
    road.lake.write()
    road.lake.write()
    lock.taken = 9
    road.clock.advance(LIVE_FOR + timedelta(minutes=1))

    road.until(lambda: RunState.SUCCEEDED in road.states())
    (row,) = road.store.lock_proofs()
    assert (row.verdict, row.witnessed) == ("proved", 0)


def test_a_writer_that_goes_before_it_was_seen_often_enough_leaves_no_table_blocked_for_ever(
    tmp_path: Path, lock: Locked
) -> None:
    """Nothing changes on the table any more, and nobody asks: it is thought of again all the same."""
    road = a_road(tmp_path, lock)
    commit(road, lock, times=3)
    assert road.runs() == []

    road.until(lambda: RunState.SUCCEEDED in road.states(), within=LIVE_FOR + timedelta(minutes=1))


def test_a_lock_service_that_is_away_blocks_an_unproved_table_with_its_own_words(tmp_path: Path, lock: Locked) -> None:
    """And takes a proof from no other."""
    lock.trouble = "ZooKeeper at zk:2181 does not answer: refused"
    road = a_road(tmp_path, lock)
    commit(road, None, times=4)
    assert isinstance(decision := road.decision(Service.COMPACTION), Blocked)
    assert "ZooKeeper at zk:2181 does not answer" in decision.reason

    lock.trouble = None
    commit(road, lock, times=5)
    road.until(lambda: RunState.SUCCEEDED in road.states())
    lock.trouble = "ZooKeeper at zk:2181 does not answer: refused"
    commit(road, lock, times=4)
    road.until(lambda: road.states().count(RunState.SUCCEEDED) > 1)


def test_another_replica_goes_on_with_what_this_one_has_learned(tmp_path: Path, lock: Locked) -> None:
    """What was seen is in the store that they share."""
    road = a_road(tmp_path, lock)
    commit(road, None)
    commit(road, None)
    (row,) = road.store.lock_proofs()
    assert row.verdict == "disproved"
    other: Callable[[], None] = road.compose  # another life: it knows the store alone
    other()
    road.for_a_while(timedelta(seconds=20))
    assert verdict(road) is Verdict.DISPROVED


def test_only_so_many_tables_are_looked_at_closely_at_a_time(
    tmp_path: Path, lock: Locked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of tables that are served for the first time must not be looked at four times a second each."""
    monkeypatch.setattr(lock_proofs, "MOST_CLOSELY", 2)
    names = ("a", "b", "c", "d")
    road = a_road(tmp_path, lock, names=names)
    for name in names:
        lock.taken += 1
        road.write(1, TableId(name))
    road.for_a_while(timedelta(seconds=20))

    proofs = road.status._proofs
    assert sum(proofs.looks_again_within(TableId(name)) is not None for name in names) == 2


def test_where_several_write_a_proved_table_goes_on_being_looked_at_closely(tmp_path: Path, lock: Locked) -> None:
    """One that seldom commits may have another lock than those that do so all the time."""
    road = a_road(tmp_path, lock)
    commit(road, lock, times=4)
    proofs = road.status._proofs
    assert verdict(road) is Verdict.PROVED
    assert proofs.looks_again_within(TRIPS) is None

    road.lake.begin_write()
    road.lake.begin_write()
    road.inbox.mark_dirty(TRIPS)
    road.for_a_while(timedelta(seconds=2))
    assert proofs.looks_again_within(TRIPS) is not None
