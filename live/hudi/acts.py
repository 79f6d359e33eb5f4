"""The acts on Hudi: one writer, and others that die."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from lakewarden.demo.daemon import Daemon
from lakewarden.demo.environment import Environment
from lakewarden.demo.formats.hudi.options import TableType, Workload
from lakewarden.demo.process import Child
from lakewarden.demo.run import DemoRun
from lakewarden.demo.snapshot import DemoState
from lakewarden.demo.writers.record import Batch, read_record
from lakewarden.planners.model.instant import Service
from lakewarden.planners.registry import FORMATS
from live.acts import Acts
from live.blame import caused_by_us
from live.hudi.casualties import Casualties
from live.hudi.policies import WriterKind, inline_options, policies
from live.hudi.streaming import doubled_micro_batches, forget_last_micro_batch, was_sent_again
from live.hudi.travel import travel
from live.journey import Journey
from live.script import EACH_SUCCEEDS, Script
from live.tally import tallies

_EVERY_SECONDS = 2.5
_READER_PAUSE_SECONDS = 1.0


class HudiActs(Acts):
    """A table of one type under one kind of writer."""

    def __init__(
        self, script: Script, stage: Environment, show: DemoRun, *, kind: TableType, writer: WriterKind
    ) -> None:
        super().__init__(script, stage, show, policies(kind, writer, FORMATS["hudi"].services))
        self.table_type = kind
        self.writer_kind = writer
        self._kind = kind
        self._writer = writer
        self._streaming: Path = stage.directory / "streaming"
        self._casualties = Casualties(stage, kind, wanted=EACH_SUCCEEDS if Service.ROLLBACK in self.policies else 0)

    def perform(self) -> None:
        """Play them, one after another."""
        daemon = self.start_daemon()
        writer = self._start_writer(daemon)
        reader = self.stage.start_reader(pause_seconds=_READER_PAUSE_SECONDS)
        deadline = time.monotonic() + self.script.minutes * 60
        if self._writer is WriterKind.STREAMING:
            self.live(self._half_way, deadline)
            self.end_writer(writer)
            forgotten = forget_last_micro_batch(self._streaming)
            writer = self._start_writer(daemon)
            if not was_sent_again(self._streaming, forgotten):
                self.trouble.append(f"micro-batch {forgotten} was not sent again, so it is not known who drops it")
            self.doubled |= doubled_micro_batches(self.stage.table)
        self.live(self.enough, deadline)
        self.trouble += self._casualties.survivors()
        self.end_writer(writer)
        self.show.drain(daemon, compact=self._writer is not WriterKind.INLINE)
        self.stage.stop_reader(reader)
        if self._writer is WriterKind.STREAMING:
            self.doubled |= doubled_micro_batches(self.stage.table)

    def look(self, scene: DemoState) -> None:
        """Send the next writer that dies, where it is time for it."""
        self._casualties.look(scene)

    def travel(self) -> list[Journey]:
        """Return what hudi-rs finds at every retained instant."""
        return travel(self.stage.table, {"writer": read_record(self.stage.record)})

    def caused_by_us(self, failures: Sequence[Batch]) -> list[Batch]:
        """Return the failures within a minute of a run of ours."""
        return caused_by_us(failures, self.last.runs)

    def _start_writer(self, daemon: Daemon) -> Child:
        arguments = ["--table-type", self._kind, "--workload", Workload.DAYS, "--every", str(_EVERY_SECONDS)]
        if self._writer is WriterKind.STREAMING:
            arguments += ["--streaming", str(self._streaming)]
        more = inline_options(self.policies) if self._writer is WriterKind.INLINE else {}
        return self.start_writer(
            lambda: self.stage.start_writer(daemon=daemon, arguments=arguments, more_options=more), daemon
        )

    def _half_way(self, scene: DemoState) -> bool:
        """Whether half of the commits are made, and something was archived where that is a service."""
        done = tallies(scene.runs).get(Service.ARCHIVE)
        archived = Service.ARCHIVE not in self.policies or (done is not None and done.succeeded > 0)
        return archived and scene.commits >= self.script.commits / 2
