"""A live Hudi writer: upserts and deletes, with the options of a production writer.

    python -m lakewarden.demo.formats.hudi.writer --path DIRECTORY --options FILE --record FILE

It ends `--seconds` after its first commit, on SIGTERM, or if the process that started it is gone. It always ends
between two commits. It records failed commits and tries the same rows again. If it is started again on the same record,
it continues where it was.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, assert_never

from pyspark.sql import SparkSession
from pyspark.sql.types import BooleanType, IntegerType, StringType, StructField, StructType

from lakewarden.demo.formats.hudi.options import BATCH, TableType, Workload, table_options
from lakewarden.demo.writers import orders
from lakewarden.demo.writers.orders import Row
from lakewarden.demo.writers.writing import Committer, WritingTime, add_writer_arguments, small_spark, write_on
from lakewarden.executors.worker import bundles

# How one batch of rows becomes one Hudi commit: by a batch write, or by a streaming query.

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


def start_spark() -> SparkSession:
    """Start a small local Spark for one Hudi table."""
    conf = {
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
    }
    return small_spark(bundles.jars(("hudi",)), conf)


def _stream(workload: Workload, seed: int) -> Iterator[tuple[Row, ...]]:
    match workload:
        case Workload.REGIONS:
            return orders.batches(seed)
        case Workload.DAYS:
            return orders.days(seed)
        case _:
            assert_never(workload)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--path", type=Path, required=True, help="the folder of the table, created if it is missing")
    parser.add_argument("--table", default="orders", help="its name")
    parser.add_argument("--table-type", type=TableType, default=TableType.MOR, help="its type, mor or cow")
    parser.add_argument("--workload", type=Workload, default=Workload.REGIONS, help="the kind of rows, regions or days")
    add_writer_arguments(parser, every=2)
    parser.add_argument(
        "--streaming", type=Path, metavar="DIRECTORY", help="write by a streaming query with its files in this folder"
    )
    return parser.parse_args()


def main() -> int:
    """Write until told to stop. Returns 0 however many commits failed; the record has them."""
    arguments = _arguments()
    writing_time = WritingTime(arguments.seconds)
    spark = start_spark()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # pyspark has installed its own handler
    options = {
        **table_options(arguments.table, kind=arguments.table_type, workload=arguments.workload),
        **json.loads(arguments.options.read_text(encoding="utf-8")),
    }
    committer: Committer = BatchCommitter(spark, path=arguments.path, options=options)
    if arguments.streaming is not None:
        committer = StreamingCommitter(spark, path=arguments.path, options=options, directory=arguments.streaming)
    write_on(
        committer, _stream(arguments.workload, arguments.seed), arguments.record, writing_time, every=arguments.every
    )
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
