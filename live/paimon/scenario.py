"""The scenario on Paimon: a writer with the commits of a streaming job, on a table with a primary key."""

from __future__ import annotations

import time
from collections.abc import Sequence

from lakewarden.demo.environment import Environment
from lakewarden.demo.run import DemoRun
from lakewarden.demo.snapshot import DemoState
from lakewarden.demo.writers.orders import Batch, read_record
from lakewarden.planners.model.instant import Service
from live.goal import Goal
from live.journey import Journey
from live.paimon.history import SnapshotsSeen
from live.paimon.lost_files import LostFiles
from live.paimon.plain_reader import PlainReader
from live.paimon.travel import travel
from live.scenario import LiveScenario


class PaimonScenario(LiveScenario):
    """Paimon's own reader queries the table all the time. Every snapshot is read once more at the end, by a reader that
    uses no code of Paimon.
    """

    table_type = "primary-key"
    writer_kind = "streaming upsert"
    write_every_seconds = 1

    def __init__(self, goal: Goal, environment: Environment, demo_run: DemoRun) -> None:
        super().__init__(goal, environment, demo_run, environment.format_demo.services)
        self._seen = SnapshotsSeen(environment.table)
        self._lost = LostFiles(environment.table)

    def run_steps(self) -> None:
        """Run the steps, one after another."""
        daemon = self.start_daemon()
        every = ("--every", str(self.write_every_seconds))
        writer = self.start_writer(lambda: self.environment.start_writer(daemon=daemon, arguments=every), daemon)
        reader = self.environment.start_reader()
        self.live(self.enough, time.monotonic() + self.goal.minutes * 60)
        self.end_writer(writer)
        self.demo_run.drain(daemon)
        self.environment.stop_reader(reader)
        if Service.ORPHANS in self.policies and not self._lost.deleted():
            self.errors.append("none of the files that no commit names was deleted")

    def look(self, _state: DemoState) -> None:
        """Read the new snapshots before they expire, and leave files that no commit names."""
        self._seen.look()
        self._lost.look()

    def travel(self) -> list[Journey]:
        """Return what is found in every snapshot that is left."""
        self._seen.look()
        return travel(PlainReader(self.environment.table), self._seen, read_record(self.environment.record))

    def caused_by_us(self, failures: Sequence[Batch]) -> list[Batch]:
        """Return all failures: there is no other writer to which a commit could have lost."""
        return list(failures)
