"""The acts of one performance, from ZooKeeper's start to the daemon's end."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from lakewarden.executors.demo.hudi_options import Workload
from lakewarden.planners.model.errors import LakewardenError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.registry import FORMATS
from lakewarden.service.demo.daemon import Daemon
from lakewarden.service.demo.process import Child
from lakewarden.service.demo.scene import Scene
from lakewarden.service.demo.show import START_SECONDS, Show
from lakewarden.service.demo.stage import Stage
from live.casualties import Casualties
from live.policies import WriterKind, inline_options, policies
from live.script import EACH_SUCCEEDS, Script
from live.streaming import doubled_micro_batches, forget_last_micro_batch, was_sent_again
from live.tally import tallies

_EVERY_SECONDS = 2.5
_READER_PAUSE_SECONDS = 1.0
_WRITER_ENDS_SECONDS = 120


class Acts:
    """One performance. Trouble on the way ends it, and does not keep the table from being looked at."""

    def __init__(self, script: Script, stage: Stage, show: Show, streaming: Path) -> None:
        chosen = policies(script.kind, script.writer, FORMATS["hudi"].services)
        self.policies = {name: value for name, value in chosen.items() if script.only is None or name in script.only}
        self.last = Scene(act="")
        self.seconds = 0.0
        self.doubled: set[int] = set()
        self.trouble: list[str] = []
        self.daemon_exit_code: int | None = None
        self._script = script
        self._stage = stage
        self._show = show
        self._streaming = streaming
        self._casualties = Casualties(
            stage, script.kind, wanted=EACH_SUCCEEDS if Service.ROLLBACK in self.policies else 0
        )
        self._daemon: Daemon | None = None

    def play(self) -> None:
        """Play them, one after another."""
        begun = time.monotonic()
        try:
            self._play()
        except LakewardenError as trouble:
            self.trouble.append(str(trouble))
        self.last = self._show.spectator.look("the end")
        self.seconds = time.monotonic() - begun

    def end_daemon(self) -> None:
        """End the daemon in good order, and note how it ended."""
        if self._daemon is not None:
            self._daemon.stop()
            self.daemon_exit_code = self._daemon.process.exit_code

    def _play(self) -> None:
        zookeeper = self._stage.start_zookeeper()
        self._show.watch("starting ZooKeeper", until=lambda _: zookeeper.ready(), at_most=START_SECONDS)
        self._daemon = daemon = self._stage.start_daemon(zookeeper, services=self.policies)
        self._show.spectator.meet(daemon)
        writer = self._start_writer(daemon)
        reader = self._stage.start_reader(pause_seconds=_READER_PAUSE_SECONDS)
        deadline = time.monotonic() + self._script.minutes * 60
        if self._script.writer is WriterKind.STREAMING:
            self._live(self._half_way, deadline)
            self._end_writer(writer)
            forgotten = forget_last_micro_batch(self._streaming)
            writer = self._start_writer(daemon)
            if not was_sent_again(self._streaming, forgotten):
                self.trouble.append(f"micro-batch {forgotten} was not sent again, so it is not known who drops it")
            self.doubled |= doubled_micro_batches(self._stage.table)
        self._live(self._enough, deadline)
        self.trouble += self._casualties.survivors()
        self._end_writer(writer)
        self._show.drain(daemon, compact=self._script.writer is not WriterKind.INLINE)
        self._stage.stop_reader(reader)
        if self._script.writer is WriterKind.STREAMING:
            self.doubled |= doubled_micro_batches(self._stage.table)

    def _start_writer(self, daemon: Daemon) -> Child:
        """Start the writer and return when it has committed and the daemon is up."""
        arguments = ["--table-type", self._script.kind, "--workload", Workload.DAYS, "--every", str(_EVERY_SECONDS)]
        if self._script.writer is WriterKind.STREAMING:
            arguments += ["--streaming", str(self._streaming)]
        more = inline_options(self.policies) if self._script.writer is WriterKind.INLINE else {}
        before = self._show.spectator.look("starting").commits
        writer = self._stage.start_writer(daemon=daemon, arguments=arguments, more_options=more)
        self._show.watch(
            "starting the daemon, its worker and the writer",
            until=lambda scene: scene.commits > before and daemon.ready(),
            at_most=START_SECONDS,
        )
        return writer

    def _end_writer(self, writer: Child) -> None:
        """Ask the writer to end after its commit, and return when it has."""
        self._stage.dismiss(writer)
        writer.ask_to_end()
        self._show.watch("the writer ends", until=lambda _: writer.exit_code is not None, at_most=_WRITER_ENDS_SECONDS)
        if writer.exit_code != 0:
            self.trouble.append(f"the writer ended with {writer.exit_code}: {writer.last_words()}")

    def _live(self, enough: Callable[[Scene], bool], deadline: float) -> None:
        """Watch until there was enough, or until the deadline: the report says what was missing."""

        def act(scene: Scene) -> str:
            done = ", ".join(f"{name} {tally.succeeded}" for name, tally in tallies(scene.runs).items())
            return f"live: {scene.commits} of {self._script.commits} commits; {done}"

        def over(scene: Scene) -> bool:
            self._casualties.look(scene)
            return enough(scene) or time.monotonic() > deadline

        self._show.watch(act, until=over, at_most=self._script.minutes * 60 + START_SECONDS)

    def _enough(self, scene: Scene) -> bool:
        done = tallies(scene.runs)
        each = all(name in done and done[name].succeeded >= EACH_SUCCEEDS for name in self.policies)
        return each and scene.commits >= self._script.commits

    def _half_way(self, scene: Scene) -> bool:
        """Whether half of the commits are made, and something was archived where that is a service."""
        done = tallies(scene.runs).get(Service.ARCHIVE)
        archived = Service.ARCHIVE not in self.policies or (done is not None and done.succeeded > 0)
        return archived and scene.commits >= self._script.commits / 2
