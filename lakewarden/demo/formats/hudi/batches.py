"""How one batch of rows becomes one Hudi commit: by a batch write, or by a streaming query."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import BooleanType, IntegerType, StringType, StructField, StructType

from lakewarden.demo.formats.hudi.options import BATCH
from lakewarden.demo.writers.record import Row

_SCHEMA = StructType(
    [
        StructField("order_id", StringType(), nullable=False),
        StructField("region", StringType(), nullable=False),
        StructField("version", IntegerType(), nullable=False),
        StructField("_hoodie_is_deleted", BooleanType(), nullable=False),
    ]
)


class BatchCommitter:
    """Appends data frames to a table. Fulfils `writing.Committer`. Each of several writers signs its commits, as
    `<writer>:<batch>`.
    """

    def __init__(self, spark: SparkSession, *, path: Path, options: Mapping[str, str], writer: str = "") -> None:
        self._spark = spark
        self._path = path
        self._options = options
        self._writer = writer

    def commit(self, batch: int, rows: tuple[Row, ...]) -> None:
        """Append the rows."""
        values = [tuple(_values(row).values()) for row in rows]
        frame = self._spark.createDataFrame(values, _SCHEMA).coalesce(1)
        options = {**self._options, **({BATCH: f"{self._writer}:{batch}"} if self._writer else {})}
        frame.write.format("hudi").options(**options).mode("append").save(f"file://{self._path}")


class StreamingCommitter:
    """Feeds a Structured Streaming query into Hudi's sink: one file in `arrivals`, one micro-batch, one commit. Fulfils
    `writing.Committer`.

    The query continues from its checkpoint. The sink itself stores the number of its last micro-batch in the metadata
    of its commits (`_hudi_streaming_sink_checkpoint`). So a micro-batch that was committed to the table, and not yet to
    the checkpoint, is not written twice (read in Hudi's `HoodieStreamingSink`).
    """

    def __init__(self, spark: SparkSession, *, path: Path, options: Mapping[str, str], directory: Path) -> None:
        self._spark = spark
        self._path = path
        self._options = options
        self._arrivals = directory / "arrivals"
        self._checkpoint = directory / "checkpoint"
        self._arrivals.mkdir(parents=True, exist_ok=True)
        self._query: Any = None

    def commit(self, batch: int, rows: tuple[Row, ...]) -> None:
        """Feed the rows, unless they were fed before. Wait until the query has taken all files."""
        arrived = self._arrivals / f"batch-{batch:06}.json"
        if not arrived.exists():
            hidden = arrived.with_name(f".{arrived.name}")  # files that begin with a dot are not read
            hidden.write_text("".join(json.dumps(_values(row)) + "\n" for row in rows), encoding="utf-8")
            hidden.rename(arrived)
        if self._query is None or not self._query.isActive:
            self._query = self._started()
        self._query.processAllAvailable()

    def _started(self) -> Any:
        rows = self._spark.readStream.schema(_SCHEMA).option("maxFilesPerTrigger", 1).json(f"file://{self._arrivals}")
        return (
            rows.writeStream.format("hudi")
            .options(**self._options)
            .option("hoodie.datasource.write.streaming.checkpoint.identifier", "orders")
            .option("hoodie.datasource.write.streaming.ignore.failed.batch", "false")
            .option("checkpointLocation", f"file://{self._checkpoint}")
            .outputMode("append")
            .start(f"file://{self._path}")
        )


def _values(row: Row) -> dict[str, Any]:
    return {
        "order_id": row.key,
        "region": row.partition,
        "version": row.value,
        "_hoodie_is_deleted": row.deleted,
    }
