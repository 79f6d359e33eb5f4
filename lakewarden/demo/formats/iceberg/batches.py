"""How one batch of rows becomes one Iceberg commit by Spark: an append, a MERGE or a DELETE."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import assert_never

from pyspark.sql import DataFrame, SparkSession

from lakewarden.demo.writers.orders import Change, change_of
from lakewarden.demo.writers.record import Row

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
