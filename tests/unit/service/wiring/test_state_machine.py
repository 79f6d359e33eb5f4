"""Thousands of programs of daemons that crash, freeze and lose their way, of writers, and of time: nothing is lost, and
nothing is done twice.

A program that fails is printed; LAKEWARDEN_SHRINK=1 looks for the shortest one, LAKEWARDEN_PROGRAMS=<n> runs more,
as CI does.
"""

from __future__ import annotations

import itertools
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from lakewarden.planners.model.table import TableId
from tests.support.daemon.world import POLICIES, Replica, World

PROGRAMS = int(os.environ.get("LAKEWARDEN_PROGRAMS", "100"))
"""Programs of each number of replicas."""

STEPS = 30

TABLES = st.sampled_from([*POLICIES])
REPLICAS = st.integers(0, 5)
LASTING = st.sampled_from([0.5, 3.0, 15.0, 45.0, 120.0])
JUMPS = st.sampled_from([timedelta(hours=-1), timedelta(minutes=-1), timedelta(0), timedelta(seconds=4)])


class Programs(RuleBasedStateMachine):
    """What may happen, in any order."""

    folder: Path
    replicas: int
    _numbers = itertools.count()

    def __init__(self) -> None:
        super().__init__()
        self.place = self.folder / str(next(self._numbers))
        self.world = World(self.place, replicas=self.replicas)
        for table in POLICIES:
            self.world.write(table, 3)

    def _one(self, number: int) -> Replica:
        return self.world.replicas[number % self.replicas]

    # -- writers

    @rule(table=TABLES, commits=st.integers(1, 3), heard_by=REPLICAS)
    def write(self, table: TableId, commits: int, heard_by: int) -> None:
        """Let a writer commit, and its hook reach a daemon, or nobody."""
        self.world.write(table, commits)
        self._one(heard_by).hear(table)

    @rule(table=TABLES, seconds=LASTING, dies=st.booleans())
    def begin_write(self, table: TableId, seconds: float, dies: bool) -> None:
        """Let a write take its time, and its writer perhaps die of it."""
        self.world.begin_write(table, seconds=seconds, dies=dies)

    @rule(table=TABLES, seconds=LASTING, dies=st.booleans())
    def execute_elsewhere(self, table: TableId, seconds: float, dies: bool) -> None:
        """Let somebody who shares no store with us plan and execute a compaction."""
        self.world.begin_foreign(table, seconds=seconds, dies=dies)

    # -- time

    @rule(number=REPLICAS)
    def turn(self, number: int) -> None:
        """Let one daemon turn."""
        self._one(number).turn()

    @rule(number=REPLICAS)
    def work(self, number: int) -> None:
        """Let one replica's workers finish a step, whatever its daemon does."""
        self._one(number).work()

    @rule(rounds=st.integers(2, 8))
    def go_on(self, rounds: int) -> None:
        """Let everybody do what they do, for some seconds."""
        for _ in range(rounds):
            self.world.pass_time(1)
            for replica in self.world.replicas:
                replica.turn()
                replica.work()
                replica.turn()

    @rule(seconds=LASTING)
    def starve(self, seconds: float) -> None:
        """Let no control thread have the processor for some time."""
        self.world.pass_time(seconds)

    # -- faults

    @rule(number=REPLICAS, seconds=LASTING)
    def crash(self, number: int, seconds: float) -> None:
        """Kill a daemon, and start another one in its place."""
        replica = self._one(number)
        replica.crash()
        self.world.after(seconds, replica.start)

    @rule(number=REPLICAS, seconds=LASTING)
    def freeze(self, number: int, seconds: float) -> None:
        """Let a daemon stand still, and wake up not knowing it."""
        replica = self._one(number)
        replica.frozen = replica.up
        self.world.after(seconds, replica.thaw)

    @rule(number=REPLICAS, seconds=LASTING)
    def cut_off(self, number: int, seconds: float) -> None:
        """Cut a daemon off from the store for some time."""
        replica = self._one(number)
        replica.line.cut = True
        self.world.after(seconds, replica.mend)

    @rule(number=REPLICAS)
    def lose_worker(self, number: int) -> None:
        """Let a worker die in the middle of its step, if there is one.

        No precondition: files have real times, so a program does not go quite the same way each time, and what is drawn
        must not depend on it.
        """
        for pool in self._one(number).pools[-1:]:
            for run in pool.runs[:1]:
                pool.kill(run)

    @rule(number=REPLICAS, by=JUMPS)
    def jump(self, number: int, by: timedelta) -> None:
        """Set a machine's wall clock."""
        self._one(number).clock.wrong_by = by

    # -- what holds

    @invariant()
    def nothing_is_broken(self) -> None:
        """Look for what must never be."""
        self.world.check()

    def teardown(self) -> None:
        """End the faults, and let everything come to rest."""
        try:
            if not self.world.broken:
                self.world.come_to_rest()
                self.world.check()
        finally:
            shutil.rmtree(self.place)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder in memory, where the system has one: thousands of tables are made in it."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        yield Path(name)


@pytest.fixture
def silence() -> Iterator[None]:
    """Let nothing be logged: what thousands of daemons have to say is most of their time."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.reset_defaults()


@pytest.mark.timeout(1800)  # about a minute where nobody else uses the machine
@pytest.mark.usefixtures("silence")
@pytest.mark.parametrize("replicas", [pytest.param(1, marks=pytest.mark.long), 2])
def test_nothing_is_lost_and_nothing_is_done_twice(folder: Path, replicas: int) -> None:
    """Whatever happens to daemons, workers, writers and clocks, and in whatever order: no two executors are at one
    instant, nothing completed is executed again, no writer fails by us, nothing needed is deleted, no row is lost or
    counted twice; and when the faults end, nothing is left pending.
    """
    machine = type("Machine", (Programs,), {"folder": folder, "replicas": replicas})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=PROGRAMS,
            stateful_step_count=STEPS,
            derandomize=True,
            database=None,
            deadline=None,
            report_multiple_bugs=False,
            phases=[Phase.generate, *([Phase.shrink] if "LAKEWARDEN_SHRINK" in os.environ else [])],
            suppress_health_check=list(HealthCheck),
        ),
    )
