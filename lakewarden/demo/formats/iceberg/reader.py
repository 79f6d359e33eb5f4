"""The reader of an Iceberg table: pyiceberg, which shares no code with Iceberg's Java, nor with the writer or the
services of the table.

    python -m lakewarden.demo.formats.iceberg.reader --path FOLDER --record FILE --queries FILE

If the table is in a catalog of pyiceberg, use `--table CATALOG.NAMESPACE.NAME --catalog JSON` in place of `--path`.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from pyiceberg.catalog import load_catalog
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.table import StaticTable, Table

from lakewarden.demo.reader import TableRows, add_arguments, read_on
from lakewarden.demo.writers.orders import Row

_COLUMNS = ("order_id", "region", "version")
_VERSION = re.compile(r"v(\d+)\.metadata\.json")


def open_folder(folder: Path) -> Table:
    """Return the newest state of a table of a Hadoop catalog. Raises FileNotFoundError if there is none."""
    names = (path.name for path in folder.glob("metadata/*"))
    versions = {int(match[1]): match[0] for name in names if (match := _VERSION.fullmatch(name))}
    if not versions:
        raise FileNotFoundError(f"there is no Iceberg table in {folder}")
    return StaticTable.from_metadata(str(folder / "metadata" / versions[max(versions)]))


def open_named(identifier: str, catalog: Mapping[str, str]) -> Callable[[], Table]:
    """Return a function that opens the newest state of a table. The first part of its identifier names the catalog."""
    name, _, table = identifier.partition(".")
    opened = load_catalog(name, **catalog)
    return lambda: opened.load_table(table)


def read_snapshot(table: Table, *, snapshot: int | None = None) -> TableRows:
    """Return the rows of a snapshot, by default the current one, the number of data and delete files that hold them,
    and the number of snapshots of the table.

    Raises ValueError for a key found twice, and any error of pyiceberg.
    """
    scan = table.scan(selected_fields=_COLUMNS, snapshot_id=snapshot)
    tasks = list(scan.plan_files())
    arrow = ArrowScan(table.metadata, table.io, scan.projection(), scan.row_filter).to_table(tasks)
    rows: dict[str, Row] = {}
    for key, partition, value in zip(*(arrow.column(name).to_pylist() for name in _COLUMNS), strict=True):
        if key in rows:
            raise ValueError(f"{key} was found twice")
        rows[key] = Row(key=key, partition=partition, value=value)
    counted = {
        "data_files": len(tasks),
        "delete_files": len({file.file_path for task in tasks for file in task.delete_files}),
        "snapshots": len(table.metadata.snapshots),
    }
    return TableRows(rows=rows, counted=counted)


def main() -> int:
    """Read until told to stop. Returns 0 however many queries failed; the record of the queries has them."""
    parser = argparse.ArgumentParser(description="query an Iceberg table all the time")
    address = parser.add_mutually_exclusive_group(required=True)
    address.add_argument("--path", type=Path, help="the folder of a table of a Hadoop catalog")
    address.add_argument("--table", help="the identifier of the table, its catalog's name first")
    parser.add_argument("--catalog", type=json.loads, default={}, help="the catalog's properties: a JSON object")
    add_arguments(parser)
    arguments = parser.parse_args()
    newest = open_named(arguments.table, arguments.catalog) if arguments.table else partial(open_folder, arguments.path)
    read_on(lambda: read_snapshot(newest()), arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
