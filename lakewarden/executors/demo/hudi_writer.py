"""A live Hudi writer: upserts and deletes into a merge-on-read table, with the options of a production writer.

    python -m lakewarden.executors.demo.hudi_writer --path DIRECTORY --zookeeper HOST:PORT --hook-url URL --record FILE

It ends after `--seconds` from its first commit, on SIGTERM, or when whoever started it is gone: always between two
commits. Failed commits are recorded, and the next batch is tried.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

from pyspark import SparkConf, SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BooleanType, IntegerType, StringType, StructField, StructType

from lakewarden.executors.demo import orders
from lakewarden.executors.demo.record import RecordWriter, Row
from lakewarden.executors.worker import bundles, java

_SCHEMA = StructType(
    [
        StructField("order_id", StringType(), nullable=False),
        StructField("region", StringType(), nullable=False),
        StructField("version", IntegerType(), nullable=False),
        StructField("_hoodie_is_deleted", BooleanType(), nullable=False),
    ]
)


def writer_options(*, table: str, zookeeper: str, hook_url: str) -> Mapping[str, str]:
    """Return what a production writer sets beside Lakewarden: a lock, LAZY, the callback, and no services of its own.

    Both sides of a table name the same lock with the same keys; the callback is a hint that may fail but must not
    hold the writer up. https://hudi.apache.org/docs/concurrency_control and /docs/configurations
    """
    lock = "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider"
    return {
        "hoodie.table.name": table,
        "hoodie.table.ordering.fields": "version",
        "hoodie.table.timeline.timezone": "UTC",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.datasource.write.recordkey.field": "order_id",
        "hoodie.datasource.write.partitionpath.field": "region",
        "hoodie.datasource.write.operation": "upsert",
        # batches are small: no statistics of columns, no server for markers and listings
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.index.column.stats.enable": "false",
        "hoodie.metadata.index.partition.stats.enable": "false",
        "hoodie.embed.timeline.server": "false",
        "hoodie.write.markers.type": "DIRECT",
        # a bucket index: upserts find their file group without reading, and small ones go to log files
        "hoodie.index.type": "BUCKET",
        "hoodie.index.bucket.engine": "SIMPLE",
        "hoodie.bucket.index.num.buckets": "1",
        # the lock that Lakewarden names, too
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.clean.failed.writes.policy": "LAZY",
        "hoodie.write.lock.provider": lock,
        "hoodie.write.lock.zookeeper.url": zookeeper,
        "hoodie.write.lock.zookeeper.base_path": "/hudi",
        "hoodie.write.lock.zookeeper.lock_key": table,
        # Lakewarden hears of every commit
        "hoodie.write.commit.callback.on": "true",
        "hoodie.write.commit.callback.http.url": hook_url,
        "hoodie.write.commit.callback.http.timeout.seconds": "2",
        # table services are Lakewarden's
        "hoodie.compact.inline": "false",
        "hoodie.compact.schedule.inline": "false",
        "hoodie.clustering.inline": "false",
        "hoodie.clean.automatic": "false",
        "hoodie.archive.automatic": "false",
    }


class HudiWriter:
    """Commits one batch after another and records what became of each."""

    def __init__(self, spark: SparkSession, *, path: Path, options: Mapping[str, str], record: RecordWriter) -> None:
        self._spark = spark
        self._path = path
        self._options = options
        self._record = record

    def commit(self, number: int, rows: tuple[Row, ...]) -> bool:
        """Commit one batch; returns whether it was acknowledged."""
        frame = self._frame(rows)
        self._record.begun(number, rows)
        try:
            frame.write.format("hudi").options(**self._options).mode("append").save(f"file://{self._path}")
        except Exception as error:  # noqa: BLE001 - the edge of the writer's loop: recorded, and counted as its failure
            self._record.failed(number, str(error)[:2000])
            return False
        self._record.acknowledged(number)
        return True

    def _frame(self, rows: tuple[Row, ...]) -> DataFrame:
        values = [(row.key, row.partition, row.value, row.deleted) for row in rows]
        return self._spark.createDataFrame(values, _SCHEMA).coalesce(1)


class Patience:
    """Whether to go on: until the time is up, SIGTERM, or the death of the parent process."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._deadline: float | None = None
        self._asked = False
        self._parent = os.getppid()
        signal.signal(signal.SIGTERM, self._ask)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is for whoever started us

    def start_counting(self) -> None:
        """Count the seconds from now, unless they are being counted already."""
        self._deadline = self._deadline or time.monotonic() + self._seconds

    def goes_on(self) -> bool:
        """Whether another batch may begin."""
        in_time = self._deadline is None or time.monotonic() < self._deadline
        return in_time and not self._asked and os.getppid() == self._parent

    def sleep_until(self, moment: float) -> None:
        """Sleep until the monotonic `moment`, or until there is a reason to end."""
        while self.goes_on() and (left := moment - time.monotonic()) > 0:
            time.sleep(min(left, 0.1))

    def _ask(self, _signal: int, _frame: FrameType | None) -> None:
        self._asked = True


def start_spark() -> SparkSession:
    """Start a small local Spark whose JVM stamps instants in UTC."""
    jars = bundles.jars(("hudi",))
    os.environ["JAVA_HOME"] = str(java.java_home())
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    conf = {
        "spark.master": "local[1]",
        "spark.app.name": "demo-writer",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraClassPath": os.pathsep.join(str(jar) for jar in jars),
        "spark.driver.extraJavaOptions": "-Duser.timezone=UTC -XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.session.timeZone": "UTC",
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    context = SparkContext(conf=SparkConf().setAll(list(conf.items())))
    context.setLogLevel("WARN")
    return SparkSession(context)


def main() -> int:
    """Write until told to stop; returns 0 however many commits failed: the record says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--path", type=Path, required=True, help="where the table is, or is to be made")
    parser.add_argument("--table", default="orders", help="its name")
    parser.add_argument("--zookeeper", required=True, metavar="HOST:PORT", help="the lock's address")
    parser.add_argument("--hook-url", required=True, help="where commits are announced")
    parser.add_argument("--record", type=Path, required=True, help="where every batch and its ending is recorded")
    parser.add_argument("--seconds", type=float, default=90, help="how long, from the first commit")
    parser.add_argument("--every", type=float, default=2, metavar="SECONDS", help="the least time between two commits")
    parser.add_argument("--seed", type=int, default=0, help="which stream of batches")
    asked = parser.parse_args()
    patience = Patience(asked.seconds)
    spark = start_spark()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # pyspark has put its own handler there
    options = writer_options(table=asked.table, zookeeper=asked.zookeeper, hook_url=asked.hook_url)
    writer = HudiWriter(spark, path=asked.path, options=options, record=RecordWriter(asked.record))
    for number, rows in enumerate(orders.batches(asked.seed), start=1):
        if not patience.goes_on():
            break
        earliest_next = time.monotonic() + asked.every
        if writer.commit(number, rows):
            patience.start_counting()
        patience.sleep_until(earliest_next)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
