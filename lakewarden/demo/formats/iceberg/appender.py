"""A live Iceberg appender without Spark: pyiceberg, on an existing table in an SQL catalog.

    python -m lakewarden.demo.formats.iceberg.appender --table CATALOG.NAMESPACE.NAME --catalog JSON --record FILE

It ends as the Iceberg writer does, and keeps the same kind of record.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog import load_catalog

from lakewarden.demo.writers import orders
from lakewarden.demo.writers.orders import Row
from lakewarden.demo.writers.writing import WritingTime, write_on

_SCHEMA = pa.schema([("order_id", pa.string()), ("region", pa.string()), ("version", pa.int32())])


class AppendCommitter:
    """Appends each batch to the newest state of a table. Fulfils `writing.Committer`."""

    def __init__(self, *, table: str, catalog: Mapping[str, str]) -> None:
        """`table` is the identifier, with its catalog first. `catalog` are properties as pyiceberg takes them."""
        name, _, self._table = table.partition(".")
        self._catalog = load_catalog(name, **catalog)

    def commit(self, _batch: int, rows: tuple[Row, ...]) -> None:
        """Append the rows. pyiceberg itself tries again if another commit came first."""
        columns = [[row.key for row in rows], [row.partition for row in rows], [row.value for row in rows]]
        arrays = [pa.array(values, field.type) for values, field in zip(columns, _SCHEMA, strict=True)]
        self._catalog.load_table(self._table).append(pa.Table.from_arrays(arrays, schema=_SCHEMA))


def main() -> int:
    """Append until told to stop. Returns 0 however many commits failed; the record has them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", required=True, help="the identifier of the table, its catalog's name first")
    parser.add_argument("--catalog", type=json.loads, required=True, help="the catalog's properties: a JSON object")
    parser.add_argument("--record", type=Path, required=True, help="the record of every batch and its ending")
    parser.add_argument("--every", type=float, default=1, metavar="SECONDS", help="the least time between two commits")
    parser.add_argument("--day", type=float, required=True, metavar="SECONDS", help="how long a day is")
    parser.add_argument("--seed", type=int, default=0, help="which stream of batches")
    arguments = parser.parse_args()
    writing_time = WritingTime(None)
    committer = AppendCommitter(table=arguments.table, catalog=arguments.catalog)
    write_on(
        committer,
        orders.arrivals(arguments.seed, orders.day_by_clock(arguments.day)),
        arguments.record,
        writing_time,
        every=arguments.every,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
