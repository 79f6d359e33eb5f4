"""A pool in which some tables kill the JVM that all runs share: for tests of who is blamed, and who goes on."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import replace

from lakewarden.executors.contract import Assignment, Granted, Refused
from lakewarden.executors.identity import ProcessIdentity
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.instant import RunId, Step
from lakewarden.planners.model.table import TableId
from tests.support.doubles.fake_pool import FakePool


def a_dead_process(number: int) -> str:
    """Return the name of a process that is proved dead: one with our id that had started at another moment."""
    ours = ProcessIdentity.of(os.getpid())
    assert ours is not None
    return replace(ours, started=-number).to_text()


class PoisonedPool(FakePool):
    """One JVM after the other, each with a name of its own; whoever executes a poisoned table kills it."""

    lives = 0
    """How many JVMs there were, over all pools: no name is used twice."""

    def __init__(self, *, slots: int, clock: Clock, poisoned: Collection[TableId]) -> None:
        super().__init__(slots=slots, clock=clock)
        self._poisoned = poisoned
        self._tables: dict[RunId, TableId] = {}
        self.deaths = 0
        self.most_beside = 0
        self._new_life()

    def submit(self, assignment: Assignment) -> None:
        """Keep which table the run is on."""
        self._tables[assignment.run] = assignment.table
        super().submit(assignment)

    def answer(self, run: RunId, step: Step, permit: Granted | Refused) -> None:
        """Take the step, unless it is the one that kills."""
        if isinstance(permit, Granted) and step is Step.EXECUTE and self._tables[run] in self._poisoned:
            self.die()
        else:
            super().answer(run, step, permit)

    def die(self) -> None:
        """Lose every run, and go on with a new JVM."""
        self.deaths += 1
        self.most_beside = max(self.most_beside, self.capacity().slots - self.capacity().free - 1)
        self.crash()
        self._new_life()

    def _new_life(self) -> None:
        PoisonedPool.lives += 1
        self._executor = a_dead_process(PoisonedPool.lives)


class Killed(BaseException):
    """The daemon's process is gone: no handler of its own may see this."""


class DeadlyPool(PoisonedPool):
    """A pool whose JVM takes the daemon with it, as a container that runs out of memory does."""

    def die(self) -> None:
        """End the daemon, which hears nothing of it."""
        raise Killed
