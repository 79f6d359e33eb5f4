"""The demo on Iceberg: a table of a Hadoop catalog, named by its folder, and pyiceberg to read it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lakewarden.demo.daemon import TABLE
from lakewarden.demo.files import count_data_files
from lakewarden.demo.format_demo import Processes, Progress
from lakewarden.demo.formats.iceberg.reader import open_folder, read_snapshot
from lakewarden.demo.reader import Snapshot

NAMESPACE = "shop"


class IcebergDemo:
    """Fulfils `Piece`. Everything that waits for hours or days on a table of production waits for seconds here."""

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
        """Return where the catalog puts the table."""
        return directory / "warehouse" / NAMESPACE / TABLE

    def prepare(self, processes: Processes, _progress: Progress) -> Mapping[str, Any]:
        """Return the table's entry in the configuration: it is looked at often, nothing tells of a commit."""
        options = {"longest_outage": "20s", "quiet_for": "10s", "quiet_intervals": 2, "distance": "5s"}
        return {"format": self.format, "path": str(processes.table), "poll": "1s", "options": options}

    def settings(self, directory: Path) -> Mapping[str, Any]:
        """Return nothing: the table's entry says all."""
        return {}

    def writer_arguments(self, directory: Path) -> Sequence[str]:
        """Return how the writer is told of the table."""
        catalog = {"type": "hadoop", "warehouse": str(directory / "warehouse")}
        return ("--table", f"lake.{NAMESPACE}.{TABLE}", "--catalog", json.dumps(catalog))

    def reader_arguments(self, directory: Path) -> Sequence[str]:
        """Return how the reader is told of the table."""
        return ("--path", str(self.folder(directory)))

    def read(self, directory: Path) -> Snapshot:
        """Return the table's rows, as pyiceberg reads them."""
        return read_snapshot(open_folder(self.folder(directory)))

    def count_stored(self, directory: Path) -> Mapping[str, int]:
        """Return the data and delete files that lie in the table's folder, whether a snapshot knows them or not."""
        return {"stored_files": count_data_files(self.folder(directory))}


PIECE = IcebergDemo()
