"""The last resort: after a signal to end, the process ends in time, whatever its threads do.

A thread that never returns keeps the interpreter from ending. A thread that never lets others run even keeps a signal
from being handled. So a small process waits beside the daemon. The signal reaches it from C code, without any thread
(`signal.set_wakeup_fd`). Workers and their JVMs end by themselves when their daemon is gone.

The module is also that process: it runs without packages, so it imports the standard library alone.
"""

from __future__ import annotations

import faulthandler
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Set
from contextlib import suppress
from datetime import timedelta
from typing import NoReturn

GRACE = timedelta(seconds=9)
"""How long closing the workers and leaving the store may take after the drain and the aborts. Kubernetes waits a second
longer.
"""

_ENDS = frozenset({signal.SIGTERM, signal.SIGINT})
_FROM_TERMINAL = frozenset({*_ENDS, signal.SIGHUP})
_SAYS_WHERE = signal.SIGUSR2
_LOOK_SECONDS = 5.0
_WRITE_SECONDS = 0.5

_kept: list[object] = []


def stand_by(within: timedelta, *, hang_up_ends: bool = True) -> None:
    """After the first signal that ends the daemon, let the process live at most for `within`.

    SIGHUP is such a signal only with `hang_up_ends`. Otherwise it reloads the configuration.
    Call it once, in the main thread, before anything that could hang.
    """
    ours, theirs = socket.socketpair()
    ours.setblocking(False)  # noqa: FBT003 - its name says the meaning
    faulthandler.register(_SAYS_WHERE)
    signal.set_wakeup_fd(ours.fileno(), warn_on_full_buffer=False)
    arguments = [str(os.getpid()), str(within.total_seconds()), str(int(hang_up_ends))]
    command = [sys.executable, "-I", "-S", __file__, *arguments]
    beside = subprocess.Popen(command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, start_new_session=True)
    theirs.close()
    _kept.extend((ours, beside))


def leave(code: int) -> NoReturn:
    """End the process now, without waiting for its threads. Everything that must be kept is kept already."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            continue
    os._exit(code)


def _watch(daemon: int, seconds: float, ends: Set[int]) -> None:
    for number in _FROM_TERMINAL:
        signal.signal(number, signal.SIG_IGN)  # the terminal sends these to both processes, but they are for the daemon
    deadline: float | None = None
    while os.getppid() == daemon:
        now = time.monotonic()
        if deadline is not None and now >= deadline:
            _kill(daemon, seconds)
            return
        rest = _LOOK_SECONDS if deadline is None else deadline - now
        if not select.select([sys.stdin], [], [], min(rest, _LOOK_SECONDS))[0]:
            continue
        told = os.read(sys.stdin.fileno(), 64)
        if not told:
            return  # the daemon has ended
        if deadline is None and not ends.isdisjoint(told):
            deadline = time.monotonic() + seconds


def _kill(daemon: int, seconds: float) -> None:
    why = f"the daemon has not ended {seconds:g} s after it was told to: it is killed; the stacks of its threads follow"
    with suppress(OSError):  # its reader may have ended before
        print(json.dumps({"event": "killed", "level": "error", "reason": why}), file=sys.stderr, flush=True)
    os.kill(daemon, _SAYS_WHERE)
    time.sleep(_WRITE_SECONDS)
    if os.getppid() == daemon:
        os.kill(daemon, signal.SIGKILL)


if __name__ == "__main__":
    _watch(int(sys.argv[1]), float(sys.argv[2]), _FROM_TERMINAL if sys.argv[3] == "1" else _ENDS)
