"""A worker's log is bounded, and its last lines are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewarden.executors.pool.worker_log import keep_within


def test_a_log_within_its_limit_is_left_alone(tmp_path: Path) -> None:
    """Nothing is copied, and a log that is not there yet is no trouble."""
    log = tmp_path / "worker-1.log"
    keep_within(log, 10)
    log.write_bytes(b"0123456789")
    keep_within(log, 10)

    assert [path.name for path in tmp_path.iterdir()] == ["worker-1.log"]


def test_a_log_beyond_its_limit_becomes_the_older_one_while_it_is_written(tmp_path: Path) -> None:
    """Who holds it open goes on at its new beginning; no line is lost, and two files are all there is."""
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
    """Supervision goes on, and the last lines are still there."""
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    log = tmp_path / "worker-1.log"
    log.write_bytes(b"x" * 200)
    (tmp_path / "worker-1.log.1").symlink_to("/dev/full")

    keep_within(log, 100)

    assert log.read_bytes() == b"x" * 200
    assert not (tmp_path / "worker-1.log.1").is_symlink()  # its room is free for the next attempt
