"""The scenario on Hudi: one live writer, and other writers that die."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lakewarden.demo.daemon import Child, DaemonProcess
from lakewarden.demo.environment import Environment
from lakewarden.demo.formats.hudi.options import TableType, Workload
from lakewarden.demo.run import DemoRun
from lakewarden.demo.snapshot import DemoState
from lakewarden.demo.writers.orders import Batch, read_record
from lakewarden.planners.model.instant import Service
from lakewarden.planners.registry import FORMATS
from lakewarden.planners.settings import format_duration
from live.blame import caused_by_us
from live.goal import EACH_SUCCEEDS, Goal
from live.hudi.killed_writers import KilledWriters
from live.hudi.policies import DEAD_AFTER, WriterKind, inline_options, policies
from live.hudi.streaming import doubled_micro_batches, forget_last_micro_batch, was_sent_again
from live.hudi.travel import travel
from live.journey import Journey
from live.scenario import LiveScenario
from live.tally import tallies

_EVERY_SECONDS = 2.5
_READER_PAUSE_SECONDS = 1.0


class HudiScenario(LiveScenario):
    """A table of one type under one kind of writer."""

    def __init__(
        self, goal: Goal, environment: Environment, demo_run: DemoRun, *, kind: TableType, writer: WriterKind
    ) -> None:
        super().__init__(goal, environment, demo_run, policies(kind, writer, FORMATS["hudi"].services))
        self.table_type = kind
        self.writer_kind = writer
        self._kind = kind
        self._writer = writer
        self._streaming: Path = environment.directory / "streaming"
        self._killed_writers = KilledWriters(
            environment, kind, wanted=EACH_SUCCEEDS if Service.ROLLBACK in self.policies else 0
        )

    @property
    def table_options(self) -> Mapping[str, Any]:
        """The time after which a killed writer is dead."""
        return {"dead_after": format_duration(DEAD_AFTER)}

    def run_steps(self) -> None:
        """Run the steps, one after another."""
        daemon = self.start_daemon()
        writer = self._start_writer(daemon)
        reader = self.environment.start_reader(pause_seconds=_READER_PAUSE_SECONDS)
        deadline = time.monotonic() + self.goal.minutes * 60
        if self._writer is WriterKind.STREAMING:
            self.live(self._half_way, deadline)
            self.end_writer(writer)
            forgotten = forget_last_micro_batch(self._streaming)
            writer = self._start_writer(daemon)
            if not was_sent_again(self._streaming, forgotten):
                self.errors.append(
                    f"micro-batch {forgotten} was not sent again, so it is not known which side drops it"
                )
            self.doubled |= doubled_micro_batches(self.environment.table)
        self.live(self.enough, deadline)
        self.errors += self._killed_writers.survivors()
        self.end_writer(writer)
        self.demo_run.drain(daemon, compact=self._writer is not WriterKind.INLINE)
        self.environment.stop_reader(reader)
        if self._writer is WriterKind.STREAMING:
            self.doubled |= doubled_micro_batches(self.environment.table)

    def look(self, state: DemoState) -> None:
        """Start the next writer that dies, if it is due."""
        self._killed_writers.look(state)

    def travel(self) -> list[Journey]:
        """Return what hudi-rs finds at every retained instant."""
        return travel(self.environment.table, {"writer": read_record(self.environment.record)})

    def caused_by_us(self, failures: Sequence[Batch]) -> list[Batch]:
        """Return the failures within a minute of a run of Lakewarden."""
        return caused_by_us(failures, self.last.runs)

    def _start_writer(self, daemon: DaemonProcess) -> Child:
        arguments = ["--table-type", self._kind, "--workload", Workload.DAYS, "--every", str(_EVERY_SECONDS)]
        if self._writer is WriterKind.STREAMING:
            arguments += ["--streaming", str(self._streaming)]
        more = inline_options(self.policies) if self._writer is WriterKind.INLINE else {}
        return self.start_writer(
            lambda: self.environment.start_writer(daemon=daemon, arguments=arguments, more_options=more), daemon
        )

    def _half_way(self, state: DemoState) -> bool:
        """Whether half of the commits are made and, if archive is a service of the table, something was archived."""
        done = tallies(state.runs).get(Service.ARCHIVE)
        archived = Service.ARCHIVE not in self.policies or (done is not None and done.succeeded > 0)
        return archived and state.commits >= self.goal.commits / 2
