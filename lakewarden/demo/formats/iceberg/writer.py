"""A live Iceberg writer: appends, MERGEs and DELETEs by Spark, on partitions that move on with time.

    python -m lakewarden.demo.formats.iceberg.writer --table CATALOG.NAMESPACE.NAME --catalog JSON --options FILE
        --record FILE

It ends `--seconds` after its first commit, on SIGTERM, or if the process that started it is gone. It always ends
between two commits. It records failed commits and tries the same rows again.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import assert_never

from pyspark.sql import DataFrame, SparkSession

from lakewarden.demo.writers import orders
from lakewarden.demo.writers.orders import Change, Row, change_of
from lakewarden.demo.writers.writing import WritingTime, add_writer_arguments, small_spark, write_on
from lakewarden.executors.worker import bundles

# How one batch of rows becomes one Iceberg commit by Spark: an append, a MERGE or a DELETE.

_SCHEMA = "order_id string, region string, version int"
_PROPERTIES: Mapping[str, str] = {
    "format-version": "2",
    "write.delete.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.merge.mode": "merge-on-read",
}
"""Deletes are written beside the data files, as position deletes that a reader must merge."""


class StatementCommitter:
    """Commits each batch by one statement. Fulfils `writing.Committer`."""

    def __init__(self, spark: SparkSession, *, table: str, properties: Mapping[str, str]) -> None:
        """`table` is the identifier, with its catalog first. `properties` are table properties besides the
        demo's own.
        """
        self._spark = spark
        self._table = table
        self._properties = {**_PROPERTIES, **properties}
        self._made = False

    def commit(self, batch: int, rows: tuple[Row, ...]) -> None:
        """Commit the rows, into a table that is created before the first rows. An empty batch makes no commit."""
        if not self._made:
            self._make_table()
            self._made = True
        if not rows:
            return
        match change_of(batch):
            case Change.APPEND:
                self._frame(rows).writeTo(self._table).append()
            case Change.MERGE:
                self._merge(rows)
            case Change.DELETE:
                self._spark.sql(
                    f"DELETE FROM {self._table} WHERE region IN ({_partitions(rows)}) "  # noqa: S608 - our own names
                    f"AND order_id IN ({_texts(row.key for row in rows)})"
                )
            case _ as never:
                assert_never(never)

    def _make_table(self) -> None:
        set_properties = ", ".join(f"'{key}'='{value}'" for key, value in self._properties.items())
        self._spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {self._table.rpartition('.')[0]}")
        self._spark.sql(
            f"CREATE TABLE IF NOT EXISTS {self._table} ({_SCHEMA}) USING iceberg "
            f"PARTITIONED BY (region) TBLPROPERTIES ({set_properties})"
        )

    def _merge(self, rows: tuple[Row, ...]) -> None:
        """Merge the rows. The condition names the partitions, so that no other partition is read or conflicts."""
        self._frame(rows).createOrReplaceTempView("changes")
        self._spark.sql(
            f"MERGE INTO {self._table} t USING changes c "
            f"ON t.region IN ({_partitions(rows)}) AND t.region = c.region AND t.order_id = c.order_id "
            "WHEN MATCHED THEN UPDATE SET version = c.version WHEN NOT MATCHED THEN INSERT *"
        )

    def _frame(self, rows: tuple[Row, ...]) -> DataFrame:
        return self._spark.createDataFrame([(row.key, row.partition, row.value) for row in rows], _SCHEMA).coalesce(1)


def _partitions(rows: Iterable[Row]) -> str:
    return _texts({row.partition for row in rows})


def _texts(values: Iterable[str]) -> str:
    return ", ".join(f"'{value}'" for value in sorted(values))


def start_spark(catalog: str, properties: Mapping[str, str], *, jars: tuple[Path, ...] = ()) -> SparkSession:
    """Start a small local Spark for one Iceberg catalog. `jars` are on its class path besides Iceberg's."""
    conf = {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        f"spark.sql.catalog.{catalog}": "org.apache.iceberg.spark.SparkCatalog",
        f"spark.sql.catalog.{catalog}.cache-enabled": "false",
        **{f"spark.sql.catalog.{catalog}.{key}": value for key, value in properties.items()},
    }
    return small_spark((*bundles.jars(("iceberg",)), *jars), conf)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", required=True, help="the identifier of the table, its catalog's name first")
    parser.add_argument("--catalog", type=json.loads, required=True, help="the catalog's properties: a JSON object")
    add_writer_arguments(parser, every=2)
    parser.add_argument("--day", type=float, metavar="SECONDS", help="how long a day is; three batches by default")
    parser.add_argument("--jar", type=Path, action="append", default=[], help="a jar that the catalog needs")
    return parser.parse_args()


def main() -> int:
    """Write until told to stop. Returns 0 however many commits failed; the record has them."""
    arguments = _arguments()
    writing_time = WritingTime(arguments.seconds)
    spark = start_spark(arguments.table.partition(".")[0], arguments.catalog, jars=tuple(arguments.jar))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # pyspark has installed its own handler
    properties = json.loads(arguments.options.read_text(encoding="utf-8"))
    committer = StatementCommitter(spark, table=arguments.table, properties=properties)
    day_of = orders.day_by_count if arguments.day is None else orders.day_by_clock(arguments.day)
    write_on(committer, orders.shifts(arguments.seed, day_of), arguments.record, writing_time, every=arguments.every)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
