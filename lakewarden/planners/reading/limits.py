"""What a process that reads tables may use up, and that it does not outlive the daemon. Linux."""

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
    """Let this process have at most `memory` bytes of data; what asks for more gets a MemoryError. The kernel, if it
    runs out of memory itself, kills this process before any other of ours. No core is dumped.
    """
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_GO, encoding="ascii")


def die_with_parent(parent: int) -> None:
    """Let the kernel kill this process as soon as the process `parent`, which started it, is gone.

    Source: prctl(2). It is about the thread that started us, and so that one lives as long as its process does.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
