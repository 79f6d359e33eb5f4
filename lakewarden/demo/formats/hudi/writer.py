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
from collections.abc import Iterator
from pathlib import Path
from typing import assert_never

from pyspark.sql import SparkSession

from lakewarden.demo.formats.hudi.batches import BatchCommitter, StreamingCommitter
from lakewarden.demo.formats.hudi.options import TableType, Workload, table_options
from lakewarden.demo.writers import orders
from lakewarden.demo.writers.arguments import add_writer_arguments
from lakewarden.demo.writers.record import Row
from lakewarden.demo.writers.small_spark import small_spark
from lakewarden.demo.writers.writing import Committer, write_on
from lakewarden.demo.writers.writing_time import WritingTime
from lakewarden.executors.worker import bundles


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
    asked = _arguments()
    writing_time = WritingTime(asked.seconds)
    spark = start_spark()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # pyspark has installed its own handler
    options = {
        **table_options(asked.table, kind=asked.table_type, workload=asked.workload),
        **json.loads(asked.options.read_text(encoding="utf-8")),
    }
    committer: Committer = BatchCommitter(spark, path=asked.path, options=options)
    if asked.streaming is not None:
        committer = StreamingCommitter(spark, path=asked.path, options=options, directory=asked.streaming)
    write_on(committer, _stream(asked.workload, asked.seed), asked.record, writing_time, every=asked.every)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
