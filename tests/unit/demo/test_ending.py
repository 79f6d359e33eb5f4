"""The end of the demo: signals are obeyed only at safe moments, and no child process is left."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import psutil
import pytest

from lakewarden.demo.daemon import Child
from lakewarden.demo.interruption import InterruptedDemoError, Interruption

_SOON = timedelta(seconds=20)
_STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
_PARENT = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', {child!r}], start_new_session=True)"


def test_a_signal_raises_at_the_next_safe_moment_and_not_before() -> None:
    """No signal comes between a child's start and its registration."""
    with Interruption() as interruption:
        signal.raise_signal(signal.SIGINT)

        with pytest.raises(InterruptedDemoError, match="SIGINT"):
            interruption.pause(60)


def test_the_first_signal_tells_how_the_demo_was_ended() -> None:
    """A second Ctrl-C changes nothing."""
    with Interruption() as interruption:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)

        with pytest.raises(InterruptedDemoError) as interrupted:
            interruption.check()

    assert interrupted.value.signal == signal.SIGTERM


def test_what_can_bear_it_is_interrupted_at_once() -> None:
    """A download of minutes does not delay a Ctrl-C."""
    with Interruption() as interruption, interruption.at_once(), pytest.raises(InterruptedDemoError):
        signal.raise_signal(signal.SIGINT)


def test_signals_mean_afterwards_what_they_meant_before() -> None:
    """The demo restores the handlers."""
    before = signal.getsignal(signal.SIGINT)
    with Interruption():
        assert signal.getsignal(signal.SIGINT) is not before

    assert signal.getsignal(signal.SIGINT) is before


@pytest.fixture
def child(tmp_path: Path) -> Callable[[str], Child]:
    """Start a process that prints `up` once it is prepared, and then waits for its end."""

    def start(preparations: str) -> Child:
        code = f"{preparations}\nprint('up', flush=True)\nimport time\ntime.sleep(600)"
        started = Child("sleeper", [sys.executable, "-c", code], log=tmp_path / "sleeper.log")
        with subprocess.Popen(["tail", "-F", "-n", "+1", tmp_path / "sleeper.log"], stdout=subprocess.PIPE) as log:
            assert log.stdout is not None
            assert b"up" in log.stdout.readline()
            log.kill()
        return started

    return start


def test_a_child_that_is_asked_ends(child: Callable[[str], Child]) -> None:
    """SIGTERM is enough for a process that obeys it. One that is gone already can be ended."""
    sleeper = child("")

    sleeper.end(grace=_SOON)
    sleeper.end(grace=_SOON)

    assert sleeper.last_words() == "up"
    assert sleeper.exit_code == -signal.SIGTERM


def test_a_child_that_does_not_heed_is_killed(child: Callable[[str], Child]) -> None:
    """It is killed after the grace time."""
    sleeper = child(_STUBBORN)

    sleeper.end(grace=timedelta(0))

    assert sleeper.exit_code == -signal.SIGKILL


def ended(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE  # its parent is gone, and init reaps it at some time
    except psutil.NoSuchProcess:
        return True


def test_what_a_child_has_started_ends_with_it(child: Callable[[str], Child]) -> None:
    """This includes a grandchild with a session of its own, as session workers have."""
    sleeper = child(_PARENT.format(child="import time; time.sleep(600)"))
    [grandchild] = psutil.Process(sleeper.pid).children()

    sleeper.end(grace=timedelta(seconds=1))

    assert ended(grandchild)


def test_what_outlived_its_child_is_ended_too(child: Callable[[str], Child]) -> None:
    """A child that died by itself may have left processes of its group."""
    left = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])"
    sleeper = child(left)
    [grandchild] = psutil.Process(sleeper.pid).children()
    psutil.Process(sleeper.pid).kill()

    sleeper.end(grace=timedelta(0))

    assert ended(grandchild)
