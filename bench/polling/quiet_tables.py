"""Small tables without writers: the files that Lakewarden reads of a Hudi table, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Mapping
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
    "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
}
_AGO = timedelta(hours=1)


def write_quiet_table(folder: Path, *, commits: int = 4) -> None:
    """Write a table of version 9 whose last commit is an hour old: properties and a timeline of delta commits."""
    home, timeline = folder / ".hoodie", folder / ".hoodie" / "timeline"
    timeline.mkdir(parents=True)
    ended = (datetime.now(UTC) - _AGO).timestamp()
    for path, content in quiet_files(str(folder), commits=commits).items():
        Path(path).write_bytes(content)
        os.utime(path, (ended, ended))
    for part in (timeline, home):
        os.utime(part, (ended, ended))


def quiet_files(location: str, *, commits: int = 4) -> dict[str, bytes]:
    """Return the files of such a table, by their locations."""
    home = f"{location}/.hoodie"
    files = {f"{home}/hoodie.properties": "".join(f"{key}={value}\n" for key, value in _PROPERTIES.items()).encode()}
    begun = datetime.now(UTC) - _AGO - timedelta(minutes=commits)
    for number in range(commits):
        requested, completed = begun + timedelta(minutes=number), begun + timedelta(minutes=number, seconds=2)
        for name in (
            f"{_stamp(requested)}.deltacommit.requested",
            f"{_stamp(requested)}.deltacommit.inflight",
            f"{_stamp(requested)}_{_stamp(completed)}.deltacommit",
        ):
            files[f"{home}/timeline/{name}"] = b""
    return files


def watched(tables: Path, *, mode: str, poll: str) -> dict[str, object]:
    """Return the settings of a daemon that observes every table in a folder, with policies that are not due."""
    return watched_at({table.name: str(table) for table in sorted(tables.iterdir())}, mode=mode, poll=poll)


def watched_at(places: Mapping[str, str], *, mode: str, poll: str) -> dict[str, object]:
    """Return the same for tables by their names, wherever they are."""
    policies = {"compaction": {"trigger": {"num_commits": 1000}}, "clean": {"trigger": {"num_commits": 1000}}}
    lock = {"provider": "zookeeper", "url": "127.0.0.1:2181", "base_path": "/hudi"}
    return {
        "spark": {"default": {"slots": 1}},
        "defaults": {"mode": mode, "poll": poll},
        "tables": [
            {
                "id": name,
                "format": "hudi",
                "path": place,
                "options": {"lock": {**lock, "lock_key": name}, "lock_proof": "trusted"},
                "services": policies,
            }
            for name, place in places.items()
        ],
    }


def _stamp(moment: datetime) -> str:
    """Return a time as Hudi writes instants: to the millisecond, in the timeline's zone."""
    return f"{moment:%Y%m%d%H%M%S}{moment.microsecond // 1000:03}"
