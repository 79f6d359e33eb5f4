"""What ends the daemon from outside: SIGTERM, Ctrl-C, and the terminal that it was started in."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType

import structlog

log = structlog.get_logger(__name__)


def stop_on_signals(stop: Callable[[], None]) -> None:
    """Call `stop` at each SIGTERM and SIGINT: the first one drains, a second one ends at once.

    SIGHUP drains too: a terminal that is closed sends it. It never hurries an end that has begun, because it comes
    twice there, by the shell and by the system. Where it is ignored, as under `nohup`, it stays ignored. Nothing is
    read anew at it: the configuration is read at start only. To be called in the main thread.
    """
    heard: list[signal.Signals] = []

    def heed(number: int, _frame: FrameType | None) -> None:
        name, hurries = signal.Signals(number), number != signal.SIGHUP
        if hurries or not heard:
            # A handler interrupts the control thread anywhere, perhaps inside the inbox: it only starts a thread.
            threading.Thread(target=_told, args=(name, stop), name="stop").start()
        heard.append(name)

    signal.signal(signal.SIGTERM, heed)
    signal.signal(signal.SIGINT, heed)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, heed)


def _told(name: signal.Signals, stop: Callable[[], None]) -> None:
    stop()
    if name is signal.SIGHUP:
        log.info("told_to_stop", signal=name.name, note="the configuration is read at start only: start it again")
    else:
        log.info("told_to_stop", signal=name.name)
