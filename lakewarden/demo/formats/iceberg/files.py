"""The files in a table's folder, counted from outside."""

from __future__ import annotations

from pathlib import Path


def count_data_files(table: Path) -> int:
    """Return the number of Parquet files of an Iceberg table: data files and position delete files, below `data`."""
    return sum(not path.name.startswith(".") for path in (table / "data").rglob("*.parquet"))
