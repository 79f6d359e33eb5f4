"""Writers, our runs and observations in any order. A good table never causes an alarm. A table whose writers do not
take the lock is never proved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from lakewarden.planners.lock_proof import Evidence, ProofState, judged
from lakewarden.planners.model.instant import State
from lakewarden.planners.model.proof import LockReading, LockSample
from tests.support.values import NOW, a_view, an_instant

Steps = Iterator[None]


@dataclass
class World:
    """A lock that is a queue, as ZooKeeper's is, a timeline, and an observer of both."""

    counts: bool
    queue: list[object] = field(default_factory=list)
    made: int = 0
    changes: int = 0
    pending: set[str] = field(default_factory=set)
    completed: list[str] = field(default_factory=list)
    names: Iterator[int] = field(default_factory=lambda: iter(range(10_000)))
    run: bool = False
    was_busy: bool = False
    time: int = 0
    judged_from: int = -1
    known: Evidence | None = None
    alarmed: bool = False
    witnessed: int = 0

    def sample(self) -> LockSample:
        """Return the state that the lock shows."""
        if not self.made:
            return LockSample()
        taken = self.made - len(self.queue) if self.counts else None
        return LockSample(number="1", mark=str(self.changes), taken=taken, held=bool(self.queue), since=NOW)

    def under_the_lock(self, deed: Callable[[], None] = lambda: None) -> Steps:
        """Queue for the lock, and do something once it is held."""
        me = object()
        self.queue.append(me)
        self.made += 1
        self.changes += 1
        yield
        while self.queue[0] is not me:
            yield
        deed()
        yield
        self.queue.remove(me)
        self.changes += 1
        yield

    def complete(self, name: str) -> None:
        """Let an observation see a write as completed."""
        self.pending.discard(name)
        self.completed.append(name)

    def writer(self, *, locks: bool, begins_under_it: bool) -> Steps:
        """Write for ever, with the lock of the policy or with another one."""
        while True:
            name = f"{next(self.names):08}"
            if locks:
                self.pending.add(name)
                if begins_under_it:
                    yield from self.under_the_lock()
                yield from self.under_the_lock(lambda name=name: self.complete(name))  # type: ignore[misc]
            else:
                self.pending.add(name)
                yield
                self.complete(name)
                yield

    def runs_of_ours(self) -> Steps:
        """Take the lock now and then, after a permit. The permit rests on an observation that began after it was asked
        for.
        """
        while True:
            yield
            self.run, asked = True, self.time
            while self.judged_from < asked:
                yield
            yield from self.under_the_lock()
            yield from self.under_the_lock()
            self.run = False

    def looks(self) -> Steps:
        """Observe for ever, and judge a while after each observation."""
        while True:
            begun = self.time
            before = self.sample()
            yield
            writes = [an_instant(time=one) for one in self.completed]
            writes += [an_instant(time=one, state=State.INFLIGHT) for one in sorted(self.pending)]
            yield
            look = LockReading(name="zk", before=before, after=self.sample())
            yield
            view = a_view(*writes, lock=look, observed_at=NOW + timedelta(hours=1))
            busy = self.run or self.was_busy
            self.was_busy = self.run
            self.known = judged(self.known, look, view, ours_before=True, busy=busy)
            self.alarmed = self.alarmed or self.known.verdict is ProofState.DISPROVED
            self.witnessed = max(self.witnessed, self.known.witnessed)
            self.judged_from = begun
            yield


SCHEDULES = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 8)), min_size=20, max_size=150)
"""Which participant takes the next steps, and how many. A writer may be fast, and an observation slow."""


def _lived(world: World, schedule: list[tuple[int, int]], *, locks: tuple[bool, bool], begins: bool) -> World:
    """Let an observation, our runs and two writers take their steps in this order."""
    writers = [world.writer(locks=one, begins_under_it=begins) for one in locks]
    actors = [world.looks(), world.runs_of_ours(), *writers]
    for number, steps in schedule:
        for _ in range(steps):
            world.time += 1
            next(actors[number])
    return world


@given(schedule=SCHEDULES, counts=st.booleans(), begins=st.booleans())
@settings(max_examples=3 * settings().max_examples, deadline=None)
def test_no_alarm_where_every_commit_was_made_under_the_lock(
    schedule: list[tuple[int, int]], counts: bool, begins: bool
) -> None:
    """This holds for any waiting for the lock, and for any time of observation. A good table is never reported to have
    writers with another lock.
    """
    assert not _lived(World(counts=counts), schedule, locks=(True, True), begins=begins).alarmed


@given(schedule=SCHEDULES, counts=st.booleans())
@settings(max_examples=3 * settings().max_examples, deadline=None)
def test_no_commit_counts_as_seen_under_the_lock_where_no_writer_took_it(
    schedule: list[tuple[int, int]], counts: bool
) -> None:
    """Lakewarden's own taking of the lock does not count for a writer."""
    assert not _lived(World(counts=counts), schedule, locks=(False, False), begins=False).witnessed


@given(schedule=SCHEDULES, counts=st.booleans(), begins=st.booleans())
@settings(deadline=None)
def test_a_writer_with_another_key_is_found_if_no_other_client_takes_the_lock_between(
    schedule: list[tuple[int, int]], counts: bool, begins: bool
) -> None:
    """Two whole observations with only its commit between them are enough, whatever was believed before."""
    world = _lived(World(counts=counts), schedule, locks=(True, False), begins=begins)
    looks = world.looks()

    def look() -> None:
        for _ in range(4):
            next(looks)

    world.queue.clear()
    look()
    world.complete("99999999")
    look()

    assert world.known is not None
    assert world.known.verdict is ProofState.DISPROVED
    assert world.known.without == "99999999"
