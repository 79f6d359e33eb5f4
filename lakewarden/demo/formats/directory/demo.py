"""The demo on a plain directory: a job's small files become few, and its partitions are committed."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lakewarden.demo.daemon import TABLE
from lakewarden.demo.format_demo import FormatDemo
from lakewarden.demo.formats.directory.reader import read_snapshot
from lakewarden.demo.reader import TableRows

TABLE_OPTIONS: Mapping[str, Any] = {
    "quiet_for": "3s",
    "quiet_intervals": 1,
    "restore_horizon": "10s",
    "list_all_every": "10s",
}
"""What takes hours or days on a production table takes seconds here. No late row comes after `restore_horizon`."""


class DirectoryDemo(FormatDemo):
    """Files without a hook."""

    format = "directory"
    services: Mapping[str, Any] = {
        "compaction": {"trigger": {"num_commits": 1}, "options": {"min_input_files": 2}},
        "partition_commit": {},
    }
    promised: Sequence[str] = ("compaction", "partition_commit")
    counted: Mapping[str, str] = {
        "small_files": "small files to join",
        "data_files": "data files",
        "committed": "partitions committed",
        "stored_files": "files stored",
    }
    to_merge = "small_files"
    writer = "lakewarden.demo.formats.directory.writer"
    reader = "lakewarden.demo.formats.directory.reader"

    def folder(self, directory: Path) -> Path:
        """Return the folder of the files."""
        return directory / "landing" / TABLE

    def entry(self, table: Path, _start_zookeeper: Callable[[], str]) -> Mapping[str, Any]:
        """Return the table's entry in the configuration. Its cadence is short, for no hook tells of a file."""
        return {"format": self.format, "path": str(table), "poll": "1s", "options": dict(TABLE_OPTIONS)}

    def read(self, directory: Path) -> TableRows:
        """Return the rows, as pyarrow reads them."""
        return read_snapshot(self.folder(directory))

    def count_stored(self, directory: Path) -> Mapping[str, int]:
        """Return the number of all files below the folder, hidden ones and markers included."""
        # a walk passes over a folder that a run of ours removes meanwhile
        return {"stored_files": sum(len(files) for _, _, files in os.walk(self.folder(directory)))}


DEMO = DirectoryDemo()
