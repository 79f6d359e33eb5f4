"""The acts on Iceberg: one writer that only appends, one of MERGE and DELETE, and files that nobody knows."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

from lakewarden.demo.environment import Environment
from lakewarden.demo.formats.iceberg.reader import open_named
from lakewarden.demo.process import Child
from lakewarden.demo.run import DemoRun
from lakewarden.demo.snapshot import DemoState
from lakewarden.demo.writers.record import Batch, read_record
from lakewarden.planners.model.instant import Service
from live.acts import Acts
from live.iceberg.blame import caused_by_us
from live.iceberg.litter import Litter
from live.iceberg.piece import IDENTIFIER, python_catalog
from live.iceberg.travel import travel
from live.journey import Journey
from live.script import EACH_SUCCEEDS, Script

_DAY_SECONDS = 15
_MERGE_EVERY_SECONDS = 3
_APPEND_EVERY_SECONDS = 1
_READER_PAUSE_SECONDS = 1.0


class IcebergActs(Acts):
    """Both writers write by the same clock, into the same partitions, which move on with it."""

    table_type = "merge-on-read"
    writer_kind = "merge and append"

    def __init__(self, script: Script, stage: Environment, show: DemoRun) -> None:
        super().__init__(script, stage, show, stage.piece.services)
        self._litter = Litter(stage.table, wanted=EACH_SUCCEEDS if Service.ORPHANS in self.policies else 0)

    def perform(self) -> None:
        """Play them, one after another."""
        daemon = self.start_daemon()
        told_of_time = ("--day", str(_DAY_SECONDS), "--every")
        merger = self.start_writer(
            lambda: self.stage.start_writer(daemon=daemon, arguments=(*told_of_time, str(_MERGE_EVERY_SECONDS))), daemon
        )
        appender = self.start_writer(lambda: self._start_appender(*told_of_time, str(_APPEND_EVERY_SECONDS)), daemon)
        reader = self.stage.start_reader(pause_seconds=_READER_PAUSE_SECONDS)
        self.live(self.enough, time.monotonic() + self.script.minutes * 60)
        self.end_writer(appender)
        self.end_writer(merger)
        self.show.drain(daemon)
        self.stage.stop_reader(reader)
        self.trouble += self._litter.complaints()

    def look(self, scene: DemoState) -> None:
        """Leave some more files that nobody knows, where it is time for it."""
        self._litter.look(scene)

    def travel(self) -> list[Journey]:
        """Return what pyiceberg finds in every snapshot that is left."""
        table = open_named(IDENTIFIER, python_catalog(self.stage.directory))()
        return travel(table, [read_record(path) for path in self.stage.records])

    def caused_by_us(self, failures: Sequence[Batch]) -> list[Batch]:
        """Return the failures that are our fault by what Iceberg says."""
        return caused_by_us(failures, self.last.runs)

    def _start_appender(self, *arguments: str) -> Child:
        """Start it on the table that the other one has made."""
        return self.stage.start_another_writer(
            "appender",
            "lakewarden.demo.formats.iceberg.appender",
            *("--table", IDENTIFIER, "--catalog", json.dumps(python_catalog(self.stage.directory)), *arguments),
        )
