"""What lies in a table's folder, counted from outside."""

from __future__ import annotations

import os
from pathlib import Path


def count_data_files(table: Path) -> int:
    """Return the Parquet files of an Iceberg table: data files and position delete files, below `data`."""
    return sum(not path.name.startswith(".") for path in (table / "data").rglob("*.parquet"))


def count_file_versions(table: Path) -> int:
    """Return the base files below a Hudi table's partitions: every one is a version of its file group.

    Names are `<fileId>_<writeToken>_<instant>.parquet`; the metadata folder `.hoodie` is no data.
    """
    count = 0
    for folder, folders, files in os.walk(table):
        folders[:] = [name for name in folders if not name.startswith(".")]
        if folder != str(table):
            count += sum(name.endswith(".parquet") and not name.startswith(".") for name in files)
    return count
