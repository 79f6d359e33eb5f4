"""The scenario on Iceberg: one writer that only appends, one with MERGE and DELETE, and files that no commit refers
to.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

from lakewarden.demo.daemon import Child
from lakewarden.demo.environment import Environment
from lakewarden.demo.formats.iceberg.reader import open_named
from lakewarden.demo.run import DemoRun
from lakewarden.demo.snapshot import DemoState
from lakewarden.demo.writers.orders import Batch, read_record
from lakewarden.planners.model.instant import Service
from live.goal import EACH_SUCCEEDS, Goal
from live.iceberg.blame import caused_by_us
from live.iceberg.catalog_demo import IDENTIFIER, python_catalog
from live.iceberg.orphan_files import OrphanFiles
from live.iceberg.travel import travel
from live.journey import Journey
from live.scenario import LiveScenario

_DAY_SECONDS = 15
_MERGE_EVERY_SECONDS = 3


class IcebergScenario(LiveScenario):
    """Both writers use the same clock and write into the same partitions. The partitions move on with the clock."""

    table_type = "merge-on-read"
    writer_kind = "merge and append"
    append_every_seconds = 1
    reader_pause_seconds = 1.0

    def __init__(self, goal: Goal, environment: Environment, demo_run: DemoRun) -> None:
        super().__init__(goal, environment, demo_run, environment.format_demo.services)
        self._orphans = OrphanFiles(environment.table, wanted=EACH_SUCCEEDS if Service.ORPHANS in self.policies else 0)

    def run_steps(self) -> None:
        """Run the steps, one after another."""
        daemon = self.start_daemon()
        told_of_time = ("--day", str(_DAY_SECONDS), "--every")
        merger = self.start_writer(
            lambda: self.environment.start_writer(daemon=daemon, arguments=(*told_of_time, str(_MERGE_EVERY_SECONDS))),
            daemon,
        )
        appender = self.start_writer(
            lambda: self._start_appender(*told_of_time, str(self.append_every_seconds)), daemon
        )
        reader = self.environment.start_reader(pause_seconds=self.reader_pause_seconds)
        others = self.start_others()
        self.live(self.enough, time.monotonic() + self.goal.minutes * 60)
        for process in (*others, appender, merger):
            self.end_writer(process)
        self.demo_run.drain(daemon)
        self.environment.stop_reader(reader)
        self.errors += self._orphans.complaints()

    def start_others(self) -> Sequence[Child]:
        """Start further writers and readers, and return them in the order in which they are to end. By default there
        are none.
        """
        return ()

    def look(self, state: DemoState) -> None:
        """Write some more files that no commit refers to, if they are due."""
        self._orphans.look(state)

    def travel(self) -> list[Journey]:
        """Return what pyiceberg finds in every snapshot that is left."""
        table = open_named(IDENTIFIER, python_catalog(self.environment.directory))()
        return travel(table, [read_record(path) for path in self.environment.records])

    def caused_by_us(self, failures: Sequence[Batch]) -> list[Batch]:
        """Return the failures that Lakewarden has caused, by Iceberg's own messages."""
        return caused_by_us(failures, self.last.runs)

    def _start_appender(self, *arguments: str) -> Child:
        """Start the appender on the table that the first writer has created."""
        return self.environment.start_another_writer(
            "appender",
            "lakewarden.demo.formats.iceberg.appender",
            *("--table", IDENTIFIER, "--catalog", json.dumps(python_catalog(self.environment.directory)), *arguments),
        )
