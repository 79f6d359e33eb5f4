"""The processes of each victim, and how they are killed or frozen."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

import psutil

from faults.injection.schedule import Victim
from live.run import left_behind
from tests.support import doubles

_WORKER = doubles.WORKER[-1]
_OURS = re.compile("java|python")


@dataclass(frozen=True, kw_only=True, slots=True)
class DaemonProcesses:
    """A daemon with its session workers and their JVMs, as they were at one moment."""

    daemon: Sequence[psutil.Process]
    workers: Sequence[psutil.Process]
    jvms: Sequence[psutil.Process]

    def inject(self, victim: Victim) -> Sequence[psutil.Process]:
        """Kill or freeze the victim. Return the processes that must be continued later."""
        killed: Sequence[psutil.Process] = ()
        frozen: Sequence[psutil.Process] = ()
        match victim:
            case Victim.DAEMON:
                killed = self.daemon
            case Victim.JVM:
                killed = self.jvms
            case Victim.WORKER:
                killed = self.workers
            case Victim.BOTH:
                killed = [*self.daemon, *self.jvms]
            case Victim.FROZEN_DAEMON:
                frozen = self.daemon
            case Victim.FROZEN_JVM:
                frozen = self.jvms
            case Victim.FROZEN_WORKER:
                frozen = self.workers
            case Victim.FROZEN_ALL:
                frozen = [*self.daemon, *self.workers, *self.jvms]
            case Victim.DAEMON_BESIDE_FROZEN_WORKER:
                killed, frozen = self.daemon, self.workers
            case Victim.JVM_BESIDE_FROZEN_EXECUTORS:
                killed = self.jvms
            case Victim.EXECUTORS | Victim.FROZEN_EXECUTORS | Victim.SPARK_WORKER | Victim.MASTER:
                pass
            case _:
                assert_never(victim)
        _send(signal.SIGSTOP, frozen)
        _send(signal.SIGKILL, killed)
        return frozen


def processes_of(daemon: int) -> DaemonProcesses:
    """Return the processes of a daemon. Empty if it has none."""
    try:
        head = psutil.Process(daemon)
        family = head.children(recursive=True)
    except psutil.NoSuchProcess:
        return DaemonProcesses(daemon=[], workers=[], jvms=[])
    return DaemonProcesses(
        daemon=[head],
        workers=[process for process in family if _WORKER in _command(process) and _name(process) != "java"],
        jvms=[process for process in family if _name(process) == "java"],
    )


def left_of(directory: Path) -> list[psutil.Process]:
    """Return the daemons, workers and JVMs that still work in the directory. A process that only reads a log there does
    not count.
    """
    found = []
    for process in left_behind(directory):
        number = int(process.split()[0])
        if _OURS.search(process) and number != os.getpid():
            with contextlib.suppress(psutil.NoSuchProcess):
                found.append(psutil.Process(number))
    return found


def thaw(processes: Iterable[psutil.Process]) -> None:
    """Continue frozen processes. Processes that are gone are skipped."""
    _send(signal.SIGCONT, processes)


def _send(number: signal.Signals, processes: Iterable[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.Error:
        return ""
