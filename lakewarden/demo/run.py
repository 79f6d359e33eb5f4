"""The demo from outside: a directory of its own, signals, the exit code, and the display."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from lakewarden.demo.daemon import DaemonProcess
from lakewarden.demo.environment import Environment
from lakewarden.demo.interruption import InterruptedDemoError, Interruption
from lakewarden.demo.screen import Screen
from lakewarden.demo.snapshot import DemoObserver, DemoState
from lakewarden.planners.model.decision import NotDue
from lakewarden.planners.model.errors import LakewardenError, TemporaryError
from lakewarden.planners.model.instant import Service
from lakewarden.service.model.run import RunState

START_SECONDS = 180
"""The longest start-up of a process."""

_TICK_SECONDS = 0.5
_DRAIN_SECONDS = 300


def run_in_directory(name: str, console: Console, run: Callable[[Path, Interruption], int]) -> int:
    """Run in a directory of its own and return the exit code. The directory stays only if something went wrong.

    128 + the signal's number after Ctrl-C or SIGTERM. Must be called in the main thread, for the signals.
    """
    directory = Path(tempfile.mkdtemp(prefix=f"lakewarden-{name}-"))
    code = 1
    try:
        with Interruption() as interruption:
            code = run(directory, interruption)
    except InterruptedDemoError as interrupted:
        console.print(f"ended by {interrupted}; nothing is left running")
        code = 128 + interrupted.signal
    except (LakewardenError, OSError) as error:
        console.print(f"the {name} cannot go on: {error}", markup=False, soft_wrap=True)
    if code == 1:
        console.print(f"the table, the records and the logs are in {directory}", soft_wrap=True)
    else:
        shutil.rmtree(directory, ignore_errors=True)
    return code


class DemoRun:
    """The steps of one demo. A signal may end it between any two observations."""

    def __init__(self, environment: Environment, screen: Screen, interruption: Interruption) -> None:
        self.observer = DemoObserver(environment)
        self._environment = environment
        self._screen = screen
        self._interruption = interruption

    def table_entry(self) -> Mapping[str, Any]:
        """Start the processes that the table needs. Return its entry in the configuration, without its services."""
        return self._environment.format_demo.entry(self._environment.table, self._start_zookeeper)

    def _start_zookeeper(self) -> str:
        zookeeper = self._environment.start_zookeeper()
        self.watch("starting ZooKeeper", until=lambda _: zookeeper.ready(), at_most=START_SECONDS)
        return zookeeper.address

    def watch(
        self, phase: str | Callable[[DemoState], str], *, until: Callable[[DemoState], bool], at_most: float
    ) -> DemoState:
        """Show the state until a condition is true. Raises TemporaryError if it is not true after `at_most` seconds."""
        deadline = time.monotonic() + at_most
        state = DemoState(phase="")
        while True:
            state = self.observer.look(phase if isinstance(phase, str) else phase(state))
            self._screen.show(state)
            self._environment.check()
            if until(state):
                return state
            if time.monotonic() > deadline:
                raise TemporaryError(f"{state.phase}: not done after {at_most:.0f} s")
            self._interruption.pause(_TICK_SECONDS)

    def drain(self, daemon: DaemonProcess, *, compact: bool = True) -> DemoState:
        """Finish what is left: execute what is pending, compact until a query has nothing to merge (unless plans are
        left to the writer), and clean once if the demo has the service and there is something to clean.
        """
        cleans, cleaned = Service.CLEAN in self._environment.format_demo.services, False

        def done(state: DemoState) -> bool:
            nonlocal cleaned
            if state.table is None or any(not RunState(run.state).ended for run in state.runs):
                return False
            wanted = self._left_over(state, compact=compact) or (Service.CLEAN if cleans and not cleaned else None)
            if wanted is None:
                return True
            refused = daemon.request_run(wanted)
            cleaned = wanted is Service.CLEAN and (not refused or _has_nothing_to_do(state, wanted))
            return False

        return self.watch("draining: the writer has stopped, the rest is compacted", until=done, at_most=_DRAIN_SECONDS)

    def _left_over(self, state: DemoState, *, compact: bool) -> Service | None:
        """Return the service that still has work: a pending plan, or files that a query must merge."""
        services = state.table.services if state.table else {}
        pending = next((Service(name) for name, service in services.items() if service.pending), None)
        to_merge = state.counts[self._environment.format_demo.to_merge].now
        return pending or (Service.COMPACTION if compact and to_merge else None)


def _has_nothing_to_do(state: DemoState, service: Service) -> bool:
    """Whether the newest decision on a service is that it has nothing to do. Then a request for it is refused."""
    status = state.table.services.get(service.value) if state.table else None
    return status is not None and status.decision is not None and status.decision.decision == NotDue.__name__
