"""A dead writer's heartbeat is made older, and no other heartbeat."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

from live.hudi.killed_writers import age_heartbeats


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
