"""A dead writer's heartbeat is made older, and no other heartbeat."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

from live.hudi.killed_writers import age_heartbeats
from live.hudi.streaming import forget_last_micro_batch, was_sent_again


def test_only_the_heartbeat_of_the_write_into_the_partition_is_aged(tmp_path: Path) -> None:
    """The name of the dead writer's data file ends with the instant."""
    heartbeats = tmp_path / ".hoodie" / ".heartbeat"
    heartbeats.mkdir(parents=True)
    dead, living = heartbeats / "20260101120000000", heartbeats / "20260101120001000"
    dead.touch()
    living.touch()
    (tmp_path / "lost-1").mkdir()
    (tmp_path / "lost-1" / "1f2e-0_0-10-12_20260101120000000.parquet").touch()

    age_heartbeats(tmp_path, partition="lost-1", age=timedelta(hours=1))

    assert time.time() - dead.stat().st_mtime > 3500
    assert time.time() - living.stat().st_mtime < 3500  # wall time: an hour old is another file


# The records of a streaming query can be removed, as a crash at the wrong moment removes them.


def test_the_newest_micro_batch_is_forgotten_with_its_checksum(tmp_path: Path) -> None:
    """The newest is found by number, not by name: 10 is newer than 9."""
    log = tmp_path / "checkpoint" / "commits"
    log.mkdir(parents=True)
    for number in (8, 9, 10):
        (log / str(number)).touch()
        (log / f".{number}.crc").touch()

    assert forget_last_micro_batch(tmp_path) == 10

    assert sorted(path.name for path in log.iterdir()) == [".8.crc", ".9.crc", "8", "9"]


def test_a_forgotten_micro_batch_was_sent_again_when_it_is_remembered_again(tmp_path: Path) -> None:
    """A query without any commit has sent nothing again."""
    log = tmp_path / "checkpoint" / "commits"
    log.mkdir(parents=True)
    assert forget_last_micro_batch(tmp_path) is None
    assert not was_sent_again(tmp_path, None)

    (log / "3").touch()
    assert forget_last_micro_batch(tmp_path) == 3
    assert not was_sent_again(tmp_path, 3)

    (log / "3").touch()
    assert was_sent_again(tmp_path, 3)
