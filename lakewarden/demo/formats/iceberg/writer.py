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
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from lakewarden.demo.formats.iceberg.batches import StatementCommitter
from lakewarden.demo.writers import orders
from lakewarden.demo.writers.arguments import add_writer_arguments
from lakewarden.demo.writers.small_spark import small_spark
from lakewarden.demo.writers.writing import write_on
from lakewarden.demo.writers.writing_time import WritingTime
from lakewarden.executors.worker import bundles


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
    asked = _arguments()
    writing_time = WritingTime(asked.seconds)
    spark = start_spark(asked.table.partition(".")[0], asked.catalog, jars=tuple(asked.jar))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # pyspark has installed its own handler
    told = json.loads(asked.options.read_text(encoding="utf-8"))
    committer = StatementCommitter(spark, table=asked.table, properties=told)
    day_of = orders.day_by_count if asked.day is None else orders.day_by_clock(asked.day)
    write_on(committer, orders.shifts(asked.seed, day_of), asked.record, writing_time, every=asked.every)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
