"""The steps of one scenario, from the start of the first process to the end of the daemon."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from lakewarden.demo.daemon import Child, DaemonProcess
from lakewarden.demo.environment import Environment
from lakewarden.demo.run import START_SECONDS, DemoRun
from lakewarden.demo.snapshot import DemoState
from lakewarden.demo.writers.orders import Batch
from lakewarden.planners.model.errors import LakewardenError
from live.goal import EACH_SUCCEEDS, Goal
from live.journey import Journey
from live.report import LiveReport
from live.tally import tallies

_WRITER_ENDS_SECONDS = 120


class LiveScenario(ABC):
    """One scenario. An error on the way ends it. The table is examined all the same."""

    table_type: str
    writer_kind: str

    def __init__(self, goal: Goal, environment: Environment, demo_run: DemoRun, policies: Mapping[str, Any]) -> None:
        self.policies = {name: value for name, value in policies.items() if goal.only is None or name in goal.only}
        self.last = DemoState(phase="")
        self.seconds = 0.0
        self.errors: list[str] = []
        self.doubled: set[int] = set()
        self.daemon_exit_code: int | None = None
        self.daemon: DaemonProcess | None = None
        self.goal = goal
        self.environment = environment
        self.demo_run = demo_run

    @abstractmethod
    def run_steps(self) -> None:
        """Run the steps, one after another. Raises LakewardenError."""

    @abstractmethod
    def travel(self) -> list[Journey]:
        """Return the findings at every retained instant. Raises any error of the foreign reader."""

    @abstractmethod
    def caused_by_us(self, failures: Sequence[Batch]) -> list[Batch]:
        """Return the failed commits of the writers that Lakewarden has caused."""

    @abstractmethod
    def look(self, state: DemoState) -> None:
        """Do what is due while the writers write."""

    @property
    def promised(self) -> Collection[str]:
        """The services that must succeed often enough: all of them, unless some have work only in need."""
        return self.policies

    @property
    def table_options(self) -> Mapping[str, Any]:
        """Further options of the table, besides those that its format names."""
        return {}

    @property
    def table_settings(self) -> Mapping[str, Any]:
        """Further settings of the table in the configuration."""
        return {}

    def told(self, report: LiveReport) -> LiveReport:
        """Return the report with the findings of this scenario."""
        return report

    def run(self) -> None:
        """Run the scenario, and keep its errors."""
        begun = time.monotonic()
        try:
            self.run_steps()
        except LakewardenError as error:
            self.errors.append(str(error))
        self.last = self.demo_run.observer.look("the end")
        self.seconds = time.monotonic() - begun

    def end_daemon(self) -> None:
        """End the daemon in good order, and keep its exit code."""
        if self.daemon is not None:
            self.daemon.stop()
            self.daemon_exit_code = self.daemon.process.exit_code

    def start_daemon(self) -> DaemonProcess:
        """Start the daemon with the processes that it needs."""
        entry = self.demo_run.table_entry()
        options = {**entry.get("options", {}), **self.table_options}
        table = {**entry, **self.table_settings, "options": options}
        self.daemon = self.environment.start_daemon(table=table, services=self.policies)
        self.demo_run.observer.meet(self.daemon)
        return self.daemon

    def start_writer(self, start: Callable[[], Child], daemon: DaemonProcess) -> Child:
        """Start a writer. Return when it has committed and the daemon is up."""
        before = self.demo_run.observer.look("starting").commits
        writer = start()
        self.demo_run.watch(
            "starting the daemon, its worker and the writer",
            until=lambda state: state.commits > before and daemon.ready(),
            at_most=START_SECONDS,
        )
        return writer

    def end_writer(self, writer: Child) -> None:
        """Ask a writer to end after its commit. Return when it has ended."""
        self.environment.expect_end(writer)
        writer.ask_to_end()
        self.demo_run.watch(
            f"the {writer.name} ends", until=lambda _: writer.exit_code is not None, at_most=_WRITER_ENDS_SECONDS
        )
        if writer.exit_code != 0:
            self.errors.append(f"the {writer.name} ended with {writer.exit_code}: {writer.last_words()}")

    def live(self, enough: Callable[[DemoState], bool], deadline: float) -> None:
        """Watch until there is enough, or until the deadline. The report says what is missing."""

        def over(state: DemoState) -> bool:
            self.look(state)
            return enough(state) or time.monotonic() > deadline

        self.demo_run.watch(self.phase, until=over, at_most=self.goal.minutes * 60 + START_SECONDS)

    def phase(self, state: DemoState) -> str:
        """Return what is going on."""
        done = ", ".join(f"{name} {tally.succeeded}" for name, tally in tallies(state.runs).items())
        return f"live: {state.commits} of {self.goal.commits} commits; {done}"

    def enough(self, state: DemoState) -> bool:
        """Whether every service has succeeded often enough, and all commits were made."""
        return self.each_succeeded(state) and state.commits >= self.goal.commits

    def each_succeeded(self, state: DemoState) -> bool:
        """Whether every service has succeeded often enough."""
        done = tallies(state.runs)
        return all(name in done and done[name].succeeded >= EACH_SUCCEEDS for name in self.promised)
