"""The last resort: a process that was told to end has ended in time, whatever its threads do.

A thread that never returns keeps the interpreter from ending, and one that never lets the others run keeps even a
signal from being heard. So a small process stands beside the daemon. It is told where the signal arrives, in C and by
no thread (`signal.set_wakeup_fd`). Workers and their JVMs end by themselves when their daemon is gone.
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
from datetime import timedelta
from typing import NoReturn

GRACE = timedelta(seconds=9)
"""After the drain and the steps back the workers are closed and the store is left; Kubernetes waits a second longer."""

_ENDS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
_SAYS_WHERE = signal.SIGUSR2
_LOOK_SECONDS = 5.0
_WRITE_SECONDS = 0.5

_kept: list[object] = []


def stand_by(within: timedelta) -> None:
    """From the first signal on that ends the daemon, let the process live for so long at most.

    To be called once, in the main thread, before anything that could hang.
    """
    ours, theirs = socket.socketpair()
    ours.setblocking(False)  # noqa: FBT003 - its name says what
    faulthandler.register(_SAYS_WHERE)
    signal.set_wakeup_fd(ours.fileno(), warn_on_full_buffer=False)
    command = [sys.executable, "-I", "-S", __file__, str(os.getpid()), str(within.total_seconds())]
    beside = subprocess.Popen(command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, start_new_session=True)
    theirs.close()
    _kept.extend((ours, beside))


def leave(code: int) -> NoReturn:
    """End the process now, and not when its last thread has: all that is to be kept is kept."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            continue
    os._exit(code)


def _watch(daemon: int, seconds: float) -> None:
    for number in _ENDS:
        signal.signal(number, signal.SIG_IGN)  # they are the daemon's, where the terminal sends them to both
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
            return  # it has ended
        if deadline is None and _ENDS.intersection(told):
            deadline = time.monotonic() + seconds


def _kill(daemon: int, seconds: float) -> None:
    why = f"the daemon has not ended {seconds:g} s after it was told to: it is killed; where its threads are follows"
    print(json.dumps({"event": "killed", "level": "error", "reason": why}), file=sys.stderr, flush=True)
    os.kill(daemon, _SAYS_WHERE)
    time.sleep(_WRITE_SECONDS)
    if os.getppid() == daemon:
        os.kill(daemon, signal.SIGKILL)


if __name__ == "__main__":
    _watch(int(sys.argv[1]), float(sys.argv[2]))
