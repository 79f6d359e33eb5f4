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
from lakewarden.executors.pool.process import (
    READ_AT_ONCE_BYTES,
    VARIABLE,
    LogTail,
    _environment,
    keep_within,
    renewed_mark,
)

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
    mark = renewed_mark(tmp_path)
    left = start(mark)

    assert renewed_mark(tmp_path) != mark
    assert not _lives(left)


def test_a_child_whose_worker_is_gone_is_found_by_the_mark_that_it_inherited(tmp_path: Path) -> None:
    """The JVM of a dead worker has lost its parent."""
    environment = {**os.environ, VARIABLE: renewed_mark(tmp_path)}
    worker = subprocess.run(
        [sys.executable, "-c", _ORPHANING], env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=30
    )
    orphan = ProcessIdentity.of(int(worker.stdout))
    assert orphan is not None
    assert not orphan.is_proved_dead()

    renewed_mark(tmp_path)

    assert orphan.is_proved_dead()


def test_what_bears_another_mark_or_none_is_not_touched(tmp_path: Path, start: _Start) -> None:
    """These are workers of another pool or another daemon, and a process that has reused an id of ours."""
    (tmp_path / "theirs").mkdir()
    (tmp_path / "ours").mkdir()
    theirs = start(renewed_mark(tmp_path / "theirs"))
    nobodys = start("")
    renewed_mark(tmp_path / "ours")

    renewed_mark(tmp_path / "ours")

    assert _lives(theirs)
    assert _lives(nobodys)


def test_what_does_not_end_is_remembered_for_the_next_start(
    tmp_path: Path, start: _Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the kernel holds up the end of a process, the daemon starts all the same. It looks for the process again
    later.
    """
    first = renewed_mark(tmp_path)
    left = start(first)
    monkeypatch.setattr("lakewarden.executors.pool.process._TIMEOUT_SECONDS", 0.0)
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda descriptor, signal: None)

    renewed_mark(tmp_path)
    assert _lives(left)

    monkeypatch.undo()
    renewed_mark(tmp_path)
    assert not _lives(left)


# A worker's log is bounded, and its last lines are kept.


def test_a_log_beyond_its_limit_becomes_the_older_one_while_it_is_written(tmp_path: Path) -> None:
    """A process that has it open continues at its new beginning. No line is lost, and there are never more than two
    files.
    """
    log = tmp_path / "worker-1.log"
    keep_within(log, 100)  # a missing log is no error
    lines = [f"line {number}\n".encode() for number in range(30)]
    with log.open("ab", buffering=0) as held:
        for line in lines:
            held.write(line)
            keep_within(log, 100)

    older = tmp_path / "worker-1.log.1"
    kept = older.read_bytes() + log.read_bytes()
    assert b"".join(lines).endswith(kept)
    assert kept.endswith(lines[-1])
    assert len(older.read_bytes()) > 100
    assert len(log.read_bytes()) <= 100
    assert sorted(path.name for path in tmp_path.iterdir()) == ["worker-1.log", "worker-1.log.1"]


def test_where_the_older_log_cannot_be_written_the_log_stays_as_it_is(tmp_path: Path) -> None:
    """Supervision continues, and the last lines are still there."""
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    log = tmp_path / "worker-1.log"
    log.write_bytes(b"x" * 200)
    (tmp_path / "worker-1.log.1").symlink_to("/dev/full")

    keep_within(log, 100)

    assert log.read_bytes() == b"x" * 200
    assert not (tmp_path / "worker-1.log.1").is_symlink()  # there is space for the next attempt


def test_a_log_is_followed_from_its_end_line_by_line_also_after_it_was_emptied(tmp_path: Path) -> None:
    """A line is passed on once, and whole. Lines of an earlier daemon are not repeated."""
    log = tmp_path / "worker-1.log"
    assert LogTail(log).lines() == []
    log.write_text("of an earlier daemon\n")
    tail = LogTail(log)
    with log.open("a") as written:
        written.write("one\ntwo\nthr")
    assert tail.lines() == ["one", "two"]
    assert tail.lines() == []
    with log.open("a") as written:
        written.write("ee\n")
    assert tail.lines() == ["three"]
    log.write_text("new\n")
    assert tail.lines() == ["new"]


def test_a_line_without_an_end_does_not_fill_the_memory(tmp_path: Path) -> None:
    """It is passed on in parts."""
    log = tmp_path / "worker-1.log"
    log.touch()
    tail = LogTail(log)
    log.write_bytes(b"x" * (3 * READ_AT_ONCE_BYTES))
    assert [len(line) for _ in range(4) for line in tail.lines()] == [READ_AT_ONCE_BYTES] * 3


# The environment that a worker and its JVM inherit from the daemon.


@pytest.mark.parametrize("locale", ["C", "POSIX", "de_DE.ISO-8859-1"])
def test_names_of_files_are_utf_8_whatever_locale_the_daemon_has(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, locale: str
) -> None:
    """A JVM in another locale finds no file with a letter beyond ASCII in its path, and takes it for deleted."""
    monkeypatch.setenv("LC_ALL", locale)
    script = "import locale; locale.setlocale(locale.LC_ALL, ''); print(locale.nl_langinfo(locale.CODESET))"
    asked = [sys.executable, "-X", "utf8=0", "-c", script]
    told = subprocess.run(asked, env=_environment(tmp_path, "mark"), capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "UTF-8"
