"""The demo on Hudi: a merge-on-read table, its lock in ZooKeeper, and hudi-rs to read it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lakewarden.demo.daemon import TABLE
from lakewarden.demo.format_demo import FormatDemo
from lakewarden.demo.formats.hudi.reader import read_snapshot
from lakewarden.demo.reader import TableRows

# The files in a table's folder, counted from outside.


def count_file_versions(table: Path) -> int:
    """Return the number of base files below a Hudi table's partitions. Each is a version of its file group.

    Names are `<fileId>_<writeToken>_<instant>.parquet`. The metadata folder `.hoodie` holds no data.
    """
    count = 0
    for folder, folders, files in os.walk(table):
        folders[:] = [name for name in folders if not name.startswith(".")]
        if folder != str(table):
            count += sum(name.endswith(".parquet") and not name.startswith(".") for name in files)
    return count


class HudiDemo(FormatDemo):
    """Its hooks cause the observations. The cadence covers lost hooks."""

    format = "hudi"
    services: Mapping[str, Any] = {
        "compaction": {"trigger": {"num_commits": 3}},
        "clean": {"trigger": {"num_commits": 3}, "options": {"commits_retained": 4}},
    }
    promised: Sequence[str] = ("compaction", "clean")
    counted: Mapping[str, str] = {"log_files": "log files to merge", "file_versions": "file versions"}
    to_merge = "log_files"
    writer = "lakewarden.demo.formats.hudi.writer"
    reader = "lakewarden.demo.formats.hudi.reader"

    def folder(self, directory: Path) -> Path:
        """Return the folder of the table's files."""
        return directory / "table"

    def entry(self, table: Path, start_zookeeper: Callable[[], str]) -> Mapping[str, Any]:
        """Start the lock service and return the table's entry in the configuration."""
        lock = {"provider": "zookeeper", "url": start_zookeeper(), "base_path": "/hudi", "lock_key": TABLE}
        return {"format": self.format, "path": str(table), "poll": "10s", "options": {"lock": lock}}

    def read(self, directory: Path) -> TableRows:
        """Return the table's rows, as hudi-rs reads them."""
        return read_snapshot(self.folder(directory))

    def count_stored(self, directory: Path) -> Mapping[str, int]:
        """Return the base files that lie in the table's partitions."""
        return {"file_versions": count_file_versions(self.folder(directory))}


DEMO = HudiDemo()
