"""The demo on Hudi: a merge-on-read table, its lock in ZooKeeper, and hudi-rs to read it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lakewarden.demo.daemon import TABLE
from lakewarden.demo.format_demo import Processes, Progress
from lakewarden.demo.formats.hudi.reader import read_snapshot
from lakewarden.demo.reader import TableRows
from lakewarden.demo.run import START_SECONDS

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


def table_entry(table: Path, *, zookeeper: str) -> dict[str, Any]:
    """Return the table's entry in the configuration. Hooks cause the observations; the cadence covers lost hooks."""
    lock = {"provider": "zookeeper", "url": zookeeper, "base_path": "/hudi", "lock_key": TABLE}
    return {"format": "hudi", "path": str(table), "poll": "10s", "options": {"lock": lock}}


class HudiDemo:
    """Fulfils `FormatDemo`."""

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

    def prepare(self, processes: Processes, progress: Progress) -> Mapping[str, Any]:
        """Start the lock service and return the table's entry in the configuration."""
        zookeeper = processes.start_zookeeper()
        progress.watch("starting ZooKeeper", until=lambda _: zookeeper.ready(), at_most=START_SECONDS)
        return table_entry(processes.table, zookeeper=zookeeper.address)

    def settings(self, directory: Path) -> Mapping[str, Any]:
        """Return nothing: the table's entry is enough."""
        return {}

    def writer_arguments(self, directory: Path) -> Sequence[str]:
        """Return the writer's arguments that name the table."""
        return ("--path", str(self.folder(directory)), "--table", TABLE)

    def reader_arguments(self, directory: Path) -> Sequence[str]:
        """Return the reader's arguments that name the table."""
        return ("--path", str(self.folder(directory)))

    def read(self, directory: Path) -> TableRows:
        """Return the table's rows, as hudi-rs reads them."""
        return read_snapshot(self.folder(directory))

    def count_stored(self, directory: Path) -> Mapping[str, int]:
        """Return the base files that lie in the table's partitions."""
        return {"file_versions": count_file_versions(self.folder(directory))}


DEMO = HudiDemo()
