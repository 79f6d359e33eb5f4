"""The limits of a reader process. It also ends with the daemon. Linux only."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_FIRST_TO_GO = "800"


def limit_memory(memory: int) -> None:
    """Limit this process to `memory` bytes of data. A larger request gets a MemoryError. If the kernel runs out of
    memory, it kills this process before Lakewarden's other processes. No core is dumped.
    """
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_GO, encoding="ascii")


def die_with_parent(parent: int) -> None:
    """Let the kernel kill this process as soon as its parent process `parent` is gone.

    Source: prctl(2). The signal belongs to the thread that started this process, so that thread must live as long as
    its process.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
