"""The reader of a Paimon table: Paimon's own, in another JVM than those of the writer and of the services.

python -m lakewarden.demo.formats.paimon.reader --path FOLDER --record FILE --queries FILE
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lakewarden.demo.formats.paimon.writer import EXPIRED, Core
from lakewarden.demo.reader import TableRows, add_arguments, read_on
from lakewarden.demo.writers.orders import Row


def read_snapshot(core: Core, folder: Path, snapshot: int | None = None) -> TableRows:
    """Return the rows of a snapshot (the newest by default) by key, the number of its data files, of its files of level
    0, and of the snapshots of the table.

    Raises ValueError for a key found twice, and any error of Paimon.
    """
    table = core.table(folder, None if snapshot is None else {"scan.snapshot-id": str(snapshot)})
    builder = core.paimon.table.source.ReadBuilderImpl(table)
    splits = list(builder.newScan().plan().splits())
    rows: dict[str, Row] = {}
    for row in _rows(core, builder, splits):
        if row.partition.startswith(EXPIRED):
            continue
        if row.key in rows:
            raise ValueError(f"{row.key} was found twice")
        rows[row.key] = row
    levels = [file.level() for split in splits for file in split.dataFiles()]
    counted = {
        "level_0_files": levels.count(0),
        "data_files": len(levels),
        "snapshots": count_snapshots(folder),
    }
    return TableRows(rows=rows, counted=counted)


def _rows(core: Core, builder: Any, splits: list[Any]) -> Iterator[Row]:
    for split in splits:
        iterator = core.paimon.reader.RecordReaderIterator(builder.newRead().createReader(split))
        try:
            while iterator.hasNext():
                row = iterator.next()
                yield Row(key=row.getString(1).toString(), partition=row.getString(0).toString(), value=row.getInt(2))
        finally:
            iterator.close()


def count_data_files(table: Path) -> int:
    """Return the number of files below the buckets, whether or not a snapshot refers to them."""
    return sum(1 for path in table.glob("**/bucket-*/*") if path.is_file())


def count_snapshots(table: Path) -> int:
    """Return the number of snapshots of the table's folder."""
    return sum(1 for path in (table / "snapshot").glob("snapshot-*") if path.name.rpartition("-")[2].isdigit())


def main() -> int:
    """Read until told to stop. Returns 0 however many queries failed; the record of the queries has them."""
    parser = argparse.ArgumentParser(description="query a Paimon table all the time")
    parser.add_argument("--path", type=Path, required=True, help="the table's folder")
    add_arguments(parser)
    arguments = parser.parse_args()
    core = Core()
    read_on(lambda: read_snapshot(core, arguments.path), arguments)
    core.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
