"""Which signals end the daemon, and which of them hurry it."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import psutil
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


# A daemon that was told to end has ended in time, whatever a thread of it does.

START = """
import re, sys, threading, time
from datetime import timedelta
from lakewarden.service.process.last_resort import leave, stand_by
from lakewarden.service.process.signals import stop_on_signals
told = threading.Event()
stand_by(timedelta(seconds=1), hang_up_ends=HANG_UP_ENDS)
stop_on_signals(told.set)
print("up", flush=True)
"""
HANGS = {
    "a thread that turns for ever": "while True: pass",
    "a thread that lets no other run": "re.fullmatch('(a|aa)+', 'a' * 200 + 'b')",
    "a thread that the interpreter waits for": "threading.Thread(target=time.sleep, args=(60,)).start(); told.wait()",
    "a thread that waits for ever": "threading.Lock().acquire() and threading.Event().wait()",
}


@contextmanager
def _started(then: str, *, hang_up_ends: bool = True) -> Iterator[subprocess.Popen[str]]:
    with ExitStack() as life:
        process = life.enter_context(
            subprocess.Popen(
                [sys.executable, "-c", START.replace("HANG_UP_ENDS", str(hang_up_ends)) + then],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        life.callback(process.kill)
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        yield process


@pytest.mark.parametrize("hang", HANGS.values(), ids=HANGS)
def test_whatever_hangs_the_process_ends(hang: str) -> None:
    """It is killed when its time is over, not before, and says where its threads were."""
    with _started(hang) as process:
        time.sleep(0.3)
        begun = time.monotonic()
        process.send_signal(signal.SIGTERM)

        _, said = process.communicate(timeout=300)

    assert process.returncode == -signal.SIGKILL
    assert time.monotonic() - begun >= 1.0
    assert '"event": "killed"' in said
    assert "most recent call first" in said


def test_a_process_that_ends_in_time_is_left_alone() -> None:
    """And nothing stays behind; a thread that the interpreter would wait for keeps it from nothing."""
    with _started("threading.Thread(target=time.sleep, args=(60,)).start(); told.wait(); leave(3)") as process:
        beside = psutil.Process(process.pid).children()
        process.send_signal(signal.SIGTERM)

        _, said = process.communicate(timeout=20)

    assert (process.returncode, "killed" in said, len(beside)) == (3, False, 1)
    assert psutil.wait_procs(beside, timeout=10)[1] == []


def test_a_process_that_is_killed_leaves_nothing_behind() -> None:
    """Whoever kills it has no more to do."""
    with _started("told.wait(60)") as process:
        beside = psutil.Process(process.pid).children()
        process.kill()
        process.communicate(timeout=20)

    assert psutil.wait_procs(beside, timeout=10)[1] == []


def test_no_other_signal_ends_it() -> None:
    """A child that ended tells its parent so, by a signal; nothing follows from it."""
    with _started("signal = __import__('signal'); signal.signal(signal.SIGCHLD, print); time.sleep(60)") as process:
        process.send_signal(signal.SIGCHLD)

        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=2)


def test_a_signal_to_reload_ends_nothing() -> None:
    """A daemon without a terminal reads its configuration at SIGHUP. It lives on, however long a drain may take."""
    with _started("stop_on_signals(told.set, reload=print); time.sleep(60)", hang_up_ends=False) as process:
        process.send_signal(signal.SIGHUP)

        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=3)


def test_it_ends_too_if_nobody_reads_what_it_says() -> None:
    """A reader of its log that has ended keeps it from nothing."""
    with _started("while True: pass") as process:
        assert process.stderr is not None
        process.stderr.close()
        process.send_signal(signal.SIGTERM)

        assert process.wait(timeout=60) == -signal.SIGKILL


def test_a_signal_of_a_closed_terminal_ends_a_process_that_hangs() -> None:
    """It is such a signal to the daemon, too."""
    with _started("while True: pass") as process:
        process.send_signal(signal.SIGHUP)

        process.communicate(timeout=20)

    assert process.returncode == -signal.SIGKILL
