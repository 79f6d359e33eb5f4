"""The acts of one performance, from the first process's start to the daemon's end."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from lakewarden.demo.daemon import Daemon
from lakewarden.demo.environment import Environment
from lakewarden.demo.process import Child
from lakewarden.demo.run import START_SECONDS, DemoRun
from lakewarden.demo.snapshot import DemoState
from lakewarden.demo.writers.record import Batch
from lakewarden.planners.model.errors import LakewardenError
from live.journey import Journey
from live.report import LiveReport
from live.script import EACH_SUCCEEDS, Script
from live.tally import tallies

_WRITER_ENDS_SECONDS = 120


class Acts(ABC):
    """One performance. Trouble on the way ends it, and does not keep the table from being looked at."""

    table_type: str
    writer_kind: str

    def __init__(self, script: Script, stage: Environment, show: DemoRun, policies: Mapping[str, Any]) -> None:
        self.policies = {name: value for name, value in policies.items() if script.only is None or name in script.only}
        self.last = DemoState(act="")
        self.seconds = 0.0
        self.trouble: list[str] = []
        self.doubled: set[int] = set()
        self.daemon_exit_code: int | None = None
        self.daemon: Daemon | None = None
        self.script = script
        self.stage = stage
        self.show = show

    @abstractmethod
    def perform(self) -> None:
        """Play them, one after another. Raises LakewardenError for trouble."""

    @abstractmethod
    def travel(self) -> list[Journey]:
        """Return what is found at every retained instant. Raises whatever a foreign reader raises."""

    @abstractmethod
    def caused_by_us(self, failures: Sequence[Batch]) -> list[Batch]:
        """Return the failed commits of the writers' that are our fault."""

    @abstractmethod
    def look(self, scene: DemoState) -> None:
        """Do what is to be done while the writers write."""

    @property
    def promised(self) -> Collection[str]:
        """The services that must succeed often enough: all that there are, unless some have work only in need."""
        return self.policies

    @property
    def table_options(self) -> Mapping[str, Any]:
        """More options of the table than its piece names."""
        return {}

    def told(self, report: LiveReport) -> LiveReport:
        """Return the report with what these acts have to tell besides."""
        return report

    def play(self) -> None:
        """Play them, and note what came of it."""
        begun = time.monotonic()
        try:
            self.perform()
        except LakewardenError as trouble:
            self.trouble.append(str(trouble))
        self.last = self.show.spectator.look("the end")
        self.seconds = time.monotonic() - begun

    def end_daemon(self) -> None:
        """End the daemon in good order, and note how it ended."""
        if self.daemon is not None:
            self.daemon.stop()
            self.daemon_exit_code = self.daemon.process.exit_code

    def start_daemon(self) -> Daemon:
        """Start the daemon, with what it needs beside it."""
        entry = self.stage.piece.prepare(self.stage, self.show)
        table = {**entry, "options": {**entry.get("options", {}), **self.table_options}}
        self.daemon = self.stage.start_daemon(table=table, services=self.policies)
        self.show.spectator.meet(self.daemon)
        return self.daemon

    def start_writer(self, start: Callable[[], Child], daemon: Daemon) -> Child:
        """Start a writer and return when it has committed and the daemon is up."""
        before = self.show.spectator.look("starting").commits
        writer = start()
        self.show.watch(
            "starting the daemon, its worker and the writer",
            until=lambda scene: scene.commits > before and daemon.ready(),
            at_most=START_SECONDS,
        )
        return writer

    def end_writer(self, writer: Child) -> None:
        """Ask a writer to end after its commit, and return when it has."""
        self.stage.dismiss(writer)
        writer.ask_to_end()
        self.show.watch(
            f"the {writer.name} ends", until=lambda _: writer.exit_code is not None, at_most=_WRITER_ENDS_SECONDS
        )
        if writer.exit_code != 0:
            self.trouble.append(f"the {writer.name} ended with {writer.exit_code}: {writer.last_words()}")

    def live(self, enough: Callable[[DemoState], bool], deadline: float) -> None:
        """Watch until there was enough, or until the deadline: the report says what was missing."""

        def act(scene: DemoState) -> str:
            done = ", ".join(f"{name} {tally.succeeded}" for name, tally in tallies(scene.runs).items())
            return f"live: {scene.commits} of {self.script.commits} commits; {done}"

        def over(scene: DemoState) -> bool:
            self.look(scene)
            return enough(scene) or time.monotonic() > deadline

        self.show.watch(act, until=over, at_most=self.script.minutes * 60 + START_SECONDS)

    def enough(self, scene: DemoState) -> bool:
        """Whether every service has succeeded often enough, and all commits were made."""
        done = tallies(scene.runs)
        each = all(name in done and done[name].succeeded >= EACH_SUCCEEDS for name in self.promised)
        return each and scene.commits >= self.script.commits
