"""A worker's log is bounded, and its last lines are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewarden.executors.pool.process import READ_AT_ONCE_BYTES, LogTail, keep_within


def test_a_log_within_its_limit_is_left_alone(tmp_path: Path) -> None:
    """Nothing is copied. A missing log is no error."""
    log = tmp_path / "worker-1.log"
    keep_within(log, 10)
    log.write_bytes(b"0123456789")
    keep_within(log, 10)

    assert [path.name for path in tmp_path.iterdir()] == ["worker-1.log"]


def test_a_log_beyond_its_limit_becomes_the_older_one_while_it_is_written(tmp_path: Path) -> None:
    """A process that has it open continues at its new beginning. No line is lost, and there are never more than two
    files.
    """
    log = tmp_path / "worker-1.log"
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
