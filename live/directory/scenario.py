"""The scenario on plain directories: two jobs that append small files, a reader that polls all the time, and what dead
jobs leave.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from lakewarden.demo.environment import Environment
from lakewarden.demo.run import DemoRun
from lakewarden.demo.snapshot import DemoState
from lakewarden.demo.writers.orders import Batch
from live.directory.leftovers import Leftovers
from live.directory.policies import POLICIES
from live.directory.rows import by_partition
from live.goal import Goal
from live.journey import Journey
from live.scenario import LiveScenario

_WRITER = "lakewarden.demo.formats.directory.writer"


class DirectoryScenario(LiveScenario):
    """Both writers write into the same partitions, which move on with the clock, and late rows into the one before."""

    table_type = "files"
    writer_kind = "append"

    def __init__(self, goal: Goal, environment: Environment, demo_run: DemoRun) -> None:
        super().__init__(goal, environment, demo_run, POLICIES)
        self._leftovers = Leftovers()
        self._leaves = {"ttl", "orphans"} <= self.policies.keys()

    def run_steps(self) -> None:
        """Run the steps, one after another."""
        daemon, path = self.start_daemon(), str(self.environment.table)
        first = self.start_writer(
            lambda: self.environment.start_writer(daemon=daemon, arguments=("--seed", "1")), daemon
        )
        second = self.start_writer(
            lambda: self.environment.start_another_writer("second", _WRITER, "--path", path, "--seed", "2"), daemon
        )
        reader = self.environment.start_reader(pause_seconds=0.05)
        self.live(self.enough, time.monotonic() + self.goal.minutes * 60)
        for writer in (first, second):
            self.end_writer(writer)
        self.demo_run.drain(daemon)
        self.demo_run.watch(
            "what was left is deleted", until=lambda _: not self._leftovers.lying(), at_most=self.goal.minutes * 60
        )
        self.environment.stop_reader(reader)

    def look(self, state: DemoState) -> None:
        """Leave the next expired partition, if the last one is gone."""
        if self._leaves:
            self._leftovers.leave(self.environment.table)

    def travel(self) -> list[Journey]:
        """Return what duckdb finds in every partition."""
        return by_partition(self.environment.table, self.last.record.expected_rows())

    def caused_by_us(self, failures: Sequence[Batch]) -> list[Batch]:
        """Return all failures: the writers share no file."""
        return list(failures)
