"""Which signals end the daemon, and which of them hurry it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator

import pytest

from lakewarden.service.process.signals import remember_hang_ups, stop_on_signals

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def stops() -> Callable[..., int]:
    """Return how many signals out of some asked the daemon to stop."""

    def heard(*sent: signal.Signals) -> int:
        asked: list[bool] = []
        stop_on_signals(lambda: asked.append(True))
        for number in sent:
            signal.raise_signal(number)
            for thread in threading.enumerate():
                if thread.name == "stop":
                    thread.join()
        return len(asked)

    return heard


@pytest.mark.parametrize("number", SIGNALS)
def test_each_of_three_signals_drains(stops: Callable[..., int], number: signal.Signals) -> None:
    """None of them is left to the system, which would kill the daemon in the middle of a commit."""
    assert stops(number) == 1


def test_a_second_signal_of_a_person_ends_at_once(stops: Callable[..., int]) -> None:
    """`stop` is asked a second time, which waits for nothing."""
    assert stops(signal.SIGINT, signal.SIGINT) == 2
    assert stops(signal.SIGHUP, signal.SIGTERM) == 2


def test_a_closed_terminal_hurries_nothing(stops: Callable[..., int]) -> None:
    """Its SIGHUP comes from the shell and from the system; systemd may send one after its SIGTERM."""
    assert stops(signal.SIGHUP, signal.SIGHUP) == 1
    assert stops(signal.SIGTERM, signal.SIGHUP) == 1


def test_under_nohup_a_closed_terminal_ends_nothing(stops: Callable[..., int]) -> None:
    """An ignored SIGHUP stays ignored."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)

    assert stops(signal.SIGHUP) == 0
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_without_a_terminal_a_hang_up_reads_the_configuration_again() -> None:
    """It ends nothing. While the daemon is ending, it does nothing."""
    stopped, reloaded = [], threading.Semaphore(0)
    stop_on_signals(lambda: stopped.append(True), reload=reloaded.release)
    signal.raise_signal(signal.SIGHUP)

    assert reloaded.acquire(timeout=60)
    assert not stopped
    signal.raise_signal(signal.SIGTERM)
    signal.raise_signal(signal.SIGHUP)
    for thread in threading.enumerate():
        if thread.name in ("stop", "reload"):
            thread.join()
    assert stopped
    assert not reloaded.acquire(blocking=False)


def test_a_hang_up_during_the_start_reloads_once_the_daemon_can() -> None:
    """The system does not kill the daemon meanwhile, and the change that was told of is not lost."""
    remember_hang_ups()
    signal.raise_signal(signal.SIGHUP)
    remember_hang_ups()
    signal.raise_signal(signal.SIGHUP)
    stopped, reloaded = [], threading.Semaphore(0)
    stop_on_signals(lambda: stopped.append(True), reload=reloaded.release)

    assert reloaded.acquire(timeout=60)
    assert not stopped
    for thread in threading.enumerate():
        if thread.name == "reload":
            thread.join()
    assert not reloaded.acquire(blocking=False)


def test_no_hang_up_during_the_start_reloads_nothing_and_an_ignored_one_stays_ignored() -> None:
    """Remembering begins no reload of its own."""
    reloads: list[bool] = []
    remember_hang_ups()
    stop_on_signals(lambda: None, reload=lambda: reloads.append(True))
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    remember_hang_ups()
    signal.raise_signal(signal.SIGHUP)
    stop_on_signals(lambda: None, reload=lambda: reloads.append(True))

    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    assert not reloads
    assert "reload" not in {thread.name for thread in threading.enumerate()}
