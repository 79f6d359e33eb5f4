"""The time that processes have spent on cores, and their memory."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import psutil


def family(pid: int) -> list[psutil.Process]:
    """Return a process and all its descendants."""
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def core_seconds(processes: Sequence[psutil.Process]) -> float:
    """Return the user and system time of processes, including their children that have ended.

    A process that has ended meanwhile is left out: its parent, which is asked after it, has its time.
    """
    seconds = 0.0
    for process in reversed(processes):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            seconds += times.user + times.system + times.children_user + times.children_system
    return seconds


def resident_bytes(processes: Sequence[psutil.Process]) -> int:
    """Return the resident memory of processes. One that has ended meanwhile has none."""
    resident = 0
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            resident += process.memory_info().rss
    return resident
