"""Small tables that nobody writes to: what Lakewarden reads of a Hudi table, and nothing else."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

_PROPERTIES = {
    "hoodie.table.name": "quiet",
    "hoodie.table.type": "MERGE_ON_READ",
    "hoodie.table.version": "9",
    "hoodie.timeline.layout.version": "2",
    "hoodie.timeline.path": "timeline",
    "hoodie.table.timeline.timezone": "UTC",
    "hoodie.table.recordkey.fields": "id",
}
_AGO = timedelta(hours=1)


def write_quiet_table(folder: Path, *, commits: int = 4) -> None:
    """Write a table of version 9 whose last commit is an hour old: properties and a timeline of delta commits."""
    home = folder / ".hoodie"
    timeline = home / "timeline"
    timeline.mkdir(parents=True)
    (home / "hoodie.properties").write_text("".join(f"{key}={value}\n" for key, value in _PROPERTIES.items()))
    begun = datetime.now(UTC) - _AGO - timedelta(minutes=commits)
    for number in range(commits):
        requested, completed = begun + timedelta(minutes=number), begun + timedelta(minutes=number, seconds=2)
        names = (
            f"{_stamp(requested)}.deltacommit.requested",
            f"{_stamp(requested)}.deltacommit.inflight",
            f"{_stamp(requested)}_{_stamp(completed)}.deltacommit",
        )
        for name in names:
            (timeline / name).touch()
            os.utime(timeline / name, (completed.timestamp(), completed.timestamp()))
    an_hour_ago = time.time() - _AGO.total_seconds()
    for path in (timeline, home / "hoodie.properties", home):
        os.utime(path, (an_hour_ago, an_hour_ago))


def watched(tables: Path, *, mode: str, poll: str) -> dict[str, object]:
    """Return the settings of a daemon that watches every table in a folder, with policies that are not due."""
    policies = {"compaction": {"trigger": {"num_commits": 1000}}, "clean": {"trigger": {"num_commits": 1000}}}
    lock = {"provider": "zookeeper", "url": "127.0.0.1:2181", "base_path": "/hudi"}
    return {
        "spark": {"default": {"slots": 1}},
        "defaults": {"mode": mode, "poll": poll},
        "tables": [
            {
                "id": table.name,
                "format": "hudi",
                "path": str(table),
                "options": {"lock": {**lock, "lock_key": table.name}},
                "services": policies,
            }
            for table in sorted(tables.iterdir())
        ],
    }


def _stamp(moment: datetime) -> str:
    """Return a time as Hudi writes instants: to the millisecond, in the timeline's zone."""
    return f"{moment:%Y%m%d%H%M%S}{moment.microsecond // 1000:03}"
