"""The reader of a plain directory: pyarrow, which shares no code with the writer's Flink or with the services' Spark.

    python -m lakewarden.demo.formats.directory.reader --path FOLDER --record FILE --queries FILE

A directory has no snapshots. So a query lists the files, reads them, and lists them again. If the two listings are
equal, the rows are those of one moment. Otherwise it reads again, as it does if a file is gone. A row that is there
twice is never right, in no listing.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pyarrow import parquet

from lakewarden.demo.reader import TableRows, add_arguments, read_on
from lakewarden.demo.writers.orders import Row

MARKER = "_SUCCESS"
EXPIRED = "dt=2000-"
"""Partitions whose names begin so are no writer's: a trial leaves them for ttl."""

_MOST_LISTINGS = 50


class TwiceError(Exception):
    """A row is there more than once."""


class ListedFile(NamedTuple):
    """A file as it was listed."""

    partition: str
    path: str
    inode: int


def listed(folder: Path) -> list[ListedFile]:
    """Return the data files, as every reader of directories lists them: names that begin with `_` or `.` are hidden."""
    return sorted(_below(str(folder), ""))


def _below(folder: str, path: str) -> Iterator[ListedFile]:
    with os.scandir(f"{folder}/{path}" if path else folder) as scan:
        entries = [entry for entry in scan if entry.name[0] not in "._"]
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _below(folder, f"{path}/{entry.name}".strip("/"))
        else:
            yield ListedFile(partition=path, path=entry.path, inode=entry.inode())


def read_snapshot(folder: Path) -> TableRows:
    """Return the rows of one moment. Raises TwiceError, and TimeoutError if no two listings are equal.

    A file is read once for all listings, because no file changes. So the last listings read what is new only.
    """
    files, cache = listed(folder), dict[ListedFile, list[tuple[str, int]]]()
    for _ in range(_MOST_LISTINGS):
        rows = _rows(files, cache)
        again = listed(folder)
        if rows is not None and again == files:
            return TableRows(rows=rows, counted=_counted(folder, files))
        files = again
    raise TimeoutError(f"{folder} changes faster than it can be read")


def _rows(files: Sequence[ListedFile], cache: dict[ListedFile, list[tuple[str, int]]]) -> dict[str, Row] | None:
    """Return the rows of the files; None if one is gone: its listing is out of date. Add what is read to `cache`."""
    rows, count = dict[str, Row](), 0
    for file in files:
        if file.partition.startswith(EXPIRED):
            continue
        if file not in cache:
            try:
                table = parquet.ParquetFile(file.path).read()
            except FileNotFoundError:
                return None
            cache[file] = list(zip(table["order_id"].to_pylist(), table["version"].to_pylist(), strict=True))
        for key, value in cache[file]:
            rows[key] = Row(key=key, partition=file.partition, value=value)
        count += len(cache[file])
    if count != len(rows):
        raise TwiceError(f"{count - len(rows)} rows are there more than once")
    return rows


def _counted(folder: Path, files: Sequence[ListedFile]) -> dict[str, int]:
    """Return the counts of a moment. A file counts as small if its partition has several: all are small here."""
    ours = Counter(file.partition for file in files if not file.partition.startswith(EXPIRED))
    return {
        "data_files": ours.total(),
        "small_files": sum(count for count in ours.values() if count > 1),
        "committed": sum((folder / partition / MARKER).exists() for partition in ours),
    }


def main() -> int:
    """Read until told to stop. Returns 0 however many queries failed; the record of the queries has them."""
    parser = argparse.ArgumentParser(description="query a plain directory all the time")
    parser.add_argument("--path", type=Path, required=True, help="the folder of the directory")
    add_arguments(parser)
    arguments = parser.parse_args()
    read_on(lambda: read_snapshot(arguments.path), arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
