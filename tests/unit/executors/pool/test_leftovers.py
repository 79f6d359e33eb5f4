"""The processes that an earlier daemon left are found by their mark and killed. No other process is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakewarden.executors.identity import ProcessIdentity
from lakewarden.executors.pool.process import VARIABLE, Marks

_Start = Callable[..., subprocess.Popen[str]]
_ENDLESS = "import signal; print('on', flush=True); signal.pause()"
_ORPHANING = f"""
import subprocess, sys
print(subprocess.Popen([sys.executable, "-c", {_ENDLESS!r}], stdout=subprocess.DEVNULL).pid)
"""


@pytest.fixture
def start() -> Iterator[_Start]:
    """Start processes with a mark. Each stops itself after its start, as by SIGSTOP."""
    started: list[subprocess.Popen[str]] = []

    def start(mark: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", _ENDLESS],
            env={**os.environ, VARIABLE: mark},
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "on\n"
        process.send_signal(signal.SIGSTOP)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def _lives(process: subprocess.Popen[str]) -> bool:
    who = ProcessIdentity.of(process.pid)
    return who is not None and not who.is_proved_dead()


def test_a_stopped_process_of_an_earlier_daemon_is_gone_when_the_next_one_starts(tmp_path: Path, start: _Start) -> None:
    """It has the mark of this folder. So it is killed and waited for, before a new mark is given."""
    mark = Marks(tmp_path).renew()
    left = start(mark)

    assert Marks(tmp_path).renew() != mark
    assert not _lives(left)


def test_a_child_whose_worker_is_gone_is_found_by_the_mark_that_it_inherited(tmp_path: Path) -> None:
    """The JVM of a dead worker has lost its parent."""
    environment = {**os.environ, VARIABLE: Marks(tmp_path).renew()}
    worker = subprocess.run(
        [sys.executable, "-c", _ORPHANING], env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=30
    )
    orphan = ProcessIdentity.of(int(worker.stdout))
    assert orphan is not None
    assert not orphan.is_proved_dead()

    Marks(tmp_path).renew()

    assert orphan.is_proved_dead()


def test_what_bears_another_mark_or_none_is_not_touched(tmp_path: Path, start: _Start) -> None:
    """These are workers of another pool or another daemon, and a process that has reused an id of ours."""
    (tmp_path / "theirs").mkdir()
    (tmp_path / "ours").mkdir()
    theirs = start(Marks(tmp_path / "theirs").renew())
    nobodys = start("")
    Marks(tmp_path / "ours").renew()

    Marks(tmp_path / "ours").renew()

    assert _lives(theirs)
    assert _lives(nobodys)


def test_what_does_not_end_is_remembered_for_the_next_start(
    tmp_path: Path, start: _Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the kernel holds up the end of a process, the daemon starts all the same. It looks for the process again
    later.
    """
    first = Marks(tmp_path).renew()
    left = start(first)
    monkeypatch.setattr("lakewarden.executors.pool.process._TIMEOUT_SECONDS", 0.0)
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda descriptor, signal: None)

    Marks(tmp_path).renew()
    assert _lives(left)

    monkeypatch.undo()
    Marks(tmp_path).renew()
    assert not _lives(left)
