"""The files in a table's folder, counted from outside."""

from __future__ import annotations

from pathlib import Path


def count_data_files(table: Path) -> int:
    """Return the number of files below the buckets, whether or not a snapshot refers to them."""
    return sum(1 for path in table.glob("**/bucket-*/*") if path.is_file())


def count_snapshots(table: Path) -> int:
    """Return the number of snapshots of the table's folder."""
    return sum(1 for path in (table / "snapshot").glob("snapshot-*") if path.name.rpartition("-")[2].isdigit())
