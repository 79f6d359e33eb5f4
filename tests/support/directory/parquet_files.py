"""Parquet files as Flink leaves them: hidden until they are complete, and without an extension."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import duckdb

from tests.support.directory.directories import age


def write_ids(file: Path, first: int, count: int, *, at: datetime | None = None) -> None:
    """Write `count` rows with the ids from `first` on. `at` is the time of the file and of its folder."""
    file.parent.mkdir(parents=True, exist_ok=True)
    hidden = file.with_name(f".{file.name}.inprogress.7")
    rows = f"select range + {first} as id, 'click' as what from range({count})"
    duckdb.connect().execute(f"copy ({rows}) to '{hidden}' (format parquet)")
    hidden.rename(file)
    if at is not None:
        for path in (file, file.parent):
            age(path, at)
