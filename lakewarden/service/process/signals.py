"""The signals of the daemon: SIGTERM, Ctrl-C and the end of its terminal end it. SIGHUP may mean: reload."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType

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
