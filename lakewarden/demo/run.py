"""A performance from outside: a directory of its own, signals, the exit code; and what happens is watched."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from lakewarden.demo.daemon import Daemon
from lakewarden.demo.environment import Environment
from lakewarden.demo.interruption import InterruptedDemoError, Interruption
from lakewarden.demo.screen import Screen
from lakewarden.demo.snapshot import DemoState, Observer
from lakewarden.planners.model.errors import LakewardenError, TemporaryError
from lakewarden.planners.model.instant import Service
from lakewarden.service.model.run import RunState

START_SECONDS = 180
"""How long processes may take to come up."""

_TICK_SECONDS = 0.5
_DRAIN_SECONDS = 300


def perform(name: str, console: Console, play: Callable[[Path, Interruption], int]) -> int:
    """Play in a directory of its own, which stays only if something went wrong; return the exit code.

    128 + the signal's number after Ctrl-C or SIGTERM. To be called in the main thread, for the signals.
    """
    directory = Path(tempfile.mkdtemp(prefix=f"lakewarden-{name}-"))
    code = 1
    try:
        with Interruption() as interruption:
            code = play(directory, interruption)
    except InterruptedDemoError as interrupted:
        console.print(f"ended by {interrupted}; nothing is left running")
        code = 128 + interrupted.signal
    except (LakewardenError, OSError) as trouble:
        console.print(f"the {name} cannot go on: {trouble}", markup=False, soft_wrap=True)
    if code == 1:
        console.print(f"the table, the records and the logs are in {directory}", soft_wrap=True)
    else:
        shutil.rmtree(directory, ignore_errors=True)
    return code


class DemoRun:
    """The acts of one performance; between any two looks at the stage a signal may end it."""

    def __init__(self, stage: Environment, screen: Screen, interruption: Interruption) -> None:
        self.spectator = Observer(stage)
        self._stage = stage
        self._screen = screen
        self._interruption = interruption

    def watch(
        self, act: str | Callable[[DemoState], str], *, until: Callable[[DemoState], bool], at_most: float
    ) -> DemoState:
        """Show what happens until something is true. Raises TemporaryError if it is not after `at_most` seconds."""
        deadline = time.monotonic() + at_most
        scene = DemoState(act="")
        while True:
            scene = self.spectator.look(act if isinstance(act, str) else act(scene))
            self._screen.show(scene)
            self._stage.check()
            if until(scene):
                return scene
            if time.monotonic() > deadline:
                raise TemporaryError(f"{scene.act}: not done after {at_most:.0f} s")
            self._interruption.pause(_TICK_SECONDS)

    def drain(self, daemon: Daemon, *, compact: bool = True) -> DemoState:
        """Have finished what is left: ask for what is pending, compact until a query has nothing to merge (unless
        plans are left to the writer), and clean once.
        """
        cleaned = False

        def done(scene: DemoState) -> bool:
            nonlocal cleaned
            if scene.table is None or any(not RunState(run.state).ended for run in scene.runs):
                return False
            wanted = self._left_over(scene, compact=compact) or (None if cleaned else Service.CLEAN)
            if wanted is None:
                return True
            cleaned = not daemon.request_run(wanted) and wanted is Service.CLEAN
            return False

        return self.watch("draining: the writer has stopped, the rest is compacted", until=done, at_most=_DRAIN_SECONDS)

    def _left_over(self, scene: DemoState, *, compact: bool) -> Service | None:
        """Return the service that still has something to do: a pending plan, or files that a query must merge."""
        services = scene.table.services if scene.table else {}
        pending = next((Service(name) for name, service in services.items() if service.pending), None)
        to_merge = scene.counts[self._stage.piece.to_merge].now
        return pending or (Service.COMPACTION if compact and to_merge else None)
