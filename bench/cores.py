"""What processes have cost so far."""

from __future__ import annotations

from collections.abc import Sequence

import psutil


def family(pid: int) -> list[psutil.Process]:
    """Return a process and all below it."""
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def core_seconds(processes: Sequence[psutil.Process]) -> float:
    """Return the user and system time that processes have spent, with that of their children that have ended."""
    times = [process.cpu_times() for process in processes]
    return sum(t.user + t.system + t.children_user + t.children_system for t in times)
