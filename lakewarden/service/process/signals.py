"""The signals of the daemon: SIGTERM, Ctrl-C and the end of its terminal end it. SIGHUP may mean: reload."""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Set
from contextlib import suppress
from datetime import timedelta
from types import FrameType
from typing import NoReturn

import structlog

log = structlog.get_logger(__name__)


def has_terminal() -> bool:
    """Return whether the process has a controlling terminal. If that is closed, the system sends SIGHUP."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


class _HangUps:
    """Remembers whether SIGHUP came, and does nothing else."""

    came = False

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        self.came = True


def remember_hang_ups() -> None:
    """Remember SIGHUP until `stop_on_signals` is called. Without it the system would kill a daemon that starts.

    An ignored SIGHUP stays ignored. A second call changes nothing. Call it in the main thread.
    """
    if not isinstance(signal.getsignal(signal.SIGHUP), _HangUps) and not _hang_up_is_ignored():
        signal.signal(signal.SIGHUP, _HangUps())


def hang_up_reloads() -> bool:
    """Return whether SIGHUP reloads: to a process with a terminal it means its end. If so, remember it from now on."""
    if has_terminal():
        return False
    remember_hang_ups()
    return True


def _hang_up_is_ignored() -> bool:
    return signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def stop_on_signals(stop: Callable[[], None], *, reload: Callable[[], object] | None = None) -> None:
    """Call `stop` at each SIGTERM and SIGINT. The first one drains, a second one ends at once.

    With `reload`, SIGHUP calls that instead, unless the daemon is ending. Without it, SIGHUP drains too: a terminal
    that is closed sends it. It never hurries an end that has begun, because the shell and the system may both send
    it. If it is ignored, as under `nohup`, it stays ignored. A SIGHUP that was remembered
    reloads now. Call it in the main thread.
    """
    heard: list[signal.Signals] = []

    def heed(number: int, _frame: FrameType | None) -> None:
        name, hurries = signal.Signals(number), number != signal.SIGHUP
        if reload is not None and not hurries:
            if not heard:
                threading.Thread(target=reload, name="reload").start()
            return
        if hurries or not heard:
            # A handler interrupts the control thread anywhere, perhaps inside the queue. So it only starts a thread.
            threading.Thread(target=_stop_for, args=(name, stop), name="stop").start()
        heard.append(name)

    signal.signal(signal.SIGTERM, heed)
    signal.signal(signal.SIGINT, heed)
    before = signal.getsignal(signal.SIGHUP)
    if not _hang_up_is_ignored():
        signal.signal(signal.SIGHUP, heed)
    if isinstance(before, _HangUps) and before.came and reload is not None:
        signal.raise_signal(signal.SIGHUP)


def _stop_for(name: signal.Signals, stop: Callable[[], None]) -> None:
    stop()
    if name is signal.SIGHUP:
        log.info("told_to_stop", signal=name.name, note="its terminal was closed")
    else:
        log.info("told_to_stop", signal=name.name)


# How the threads of the daemon share Python's interpreter.

_SWITCH_SECONDS = 0.001
"""How long a computing thread keeps the interpreter. Each step of a hook waits for so long beside a large answer."""

_OBJECTS_BETWEEN_SEARCHES = 50_000
"""How many new objects lead to a search for garbage. Python's 700 make the first decisions on ten thousand tables a
sixth slower, and each tenth search of a tenth search stops every thread for almost a second.
"""


def favour_hooks() -> None:
    """Let no long computation and no search for garbage delay a hook. The objects that are there now stay."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.collect()
    gc.freeze()  # such a search would take a tenth of a second
    gc.set_threshold(_OBJECTS_BETWEEN_SEARCHES)


# The last resort: after a signal to end, the process ends in time, whatever its threads do.
#
# A thread that never returns keeps the interpreter from ending. A thread that never lets others run even keeps a signal
# from being handled. So a small process waits beside the daemon. The signal reaches it from C code, without any thread
# (`signal.set_wakeup_fd`). Workers and their JVMs end by themselves when their daemon is gone.

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
        numbers = os.read(sys.stdin.fileno(), 64)
        if not numbers:
            return  # the daemon has ended
        if deadline is None and not ends.isdisjoint(numbers):
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
