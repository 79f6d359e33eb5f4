"""The demo on Iceberg: a table of a Hadoop catalog, named by its folder, and pyiceberg to read it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lakewarden.demo.daemon import TABLE
from lakewarden.demo.format_demo import FormatDemo
from lakewarden.demo.formats.iceberg.reader import open_folder, read_snapshot
from lakewarden.demo.reader import TableRows

# The files in a table's folder, counted from outside.


def count_data_files(table: Path) -> int:
    """Return the number of Parquet files of an Iceberg table: data files and position delete files, below `data`."""
    return sum(not path.name.startswith(".") for path in (table / "data").rglob("*.parquet"))


NAMESPACE = "shop"


class IcebergDemo(FormatDemo):
    """Everything that takes hours or days on a production table takes seconds here."""

    format = "iceberg"
    services: Mapping[str, Any] = {
        "compaction": {"trigger": {"num_commits": 3}, "options": {"min_input_files": 2, "delete_file_threshold": 1}},
        "clean": {
            "trigger": {"num_commits": 5},
            "options": {"max_snapshot_age": "20s", "min_snapshots_to_keep": 5},
        },
        "archive": {"trigger": {"num_commits": 8}, "options": {"small_manifests": 8}},
    }
    promised: Sequence[str] = ("compaction", "clean", "archive")
    counted: Mapping[str, str] = {
        "delete_files": "delete files to merge",
        "data_files": "data files",
        "snapshots": "snapshots",
        "stored_files": "files stored",
    }
    to_merge = "delete_files"
    writer = "lakewarden.demo.formats.iceberg.writer"
    reader = "lakewarden.demo.formats.iceberg.reader"

    def folder(self, directory: Path) -> Path:
        """Return the folder in which the catalog puts the table."""
        return directory / "warehouse" / NAMESPACE / TABLE

    def entry(self, table: Path, _start_zookeeper: Callable[[], str]) -> Mapping[str, Any]:
        """Return the table's entry in the configuration. Its cadence is short, for no hook tells of a commit."""
        options = {"longest_outage": "20s", "quiet_for": "10s", "quiet_intervals": 2, "distance": "5s"}
        return {"format": self.format, "path": str(table), "poll": "1s", "options": options}

    def writer_arguments(self, directory: Path) -> Sequence[str]:
        """Return the writer's arguments that name the table."""
        catalog = {"type": "hadoop", "warehouse": str(directory / "warehouse")}
        return ("--table", f"lake.{NAMESPACE}.{TABLE}", "--catalog", json.dumps(catalog))

    def read(self, directory: Path) -> TableRows:
        """Return the table's rows, as pyiceberg reads them."""
        return read_snapshot(open_folder(self.folder(directory)))

    def count_stored(self, directory: Path) -> Mapping[str, int]:
        """Return the number of data and delete files in the table's folder, whether or not a snapshot refers to
        them.
        """
        return {"stored_files": count_data_files(self.folder(directory))}


DEMO = IcebergDemo()
