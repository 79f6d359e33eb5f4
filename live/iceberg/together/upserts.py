"""A job that upserts as Flink does, by Iceberg's own API: it writes equality deletes beside data files, and publishes
snapshots that it staged before.

    python -m live.iceberg.together.upserts --folder DIR --catalog JSON --jar JAR --record FILE

A Flink job keeps the partition spec that the table had when the job started. In the middle of the job, this table loses
its partition field. The job is restarted `_RESTARTS` batches later, and then sees the change.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from lakewarden.demo.formats.iceberg.writer import start_spark
from lakewarden.demo.writers.orders import Row
from lakewarden.demo.writers.writing import WritingTime, write_on
from live.iceberg.catalog_demo import CATALOG
from live.iceberg.together.streams import PUBLISHED_EVERY, batches, deletes, publishes, upserted
from live.iceberg.together.tables import Name, identifier
from tests.support.iceberg import iceberg_upserts
from tests.support.iceberg.iceberg_upserts import UpsertJob

_EVOLVES = 25
_RESTARTS = 20
_STAGED_BEFORE = 5


class UpsertCommitter:
    """One batch is one checkpoint of the job. Fulfils `Committer`."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark: Any = spark
        self._folder = folder
        self._folder.mkdir(parents=True, exist_ok=True)
        self._job = self._started()
        self._staged: dict[int, int] = {}
        self._evolved = self._restarted = False

    def commit(self, batch: int, rows: tuple[Row, ...]) -> None:
        """Commit one checkpoint, or publish the snapshot that was staged some batches ago."""
        if batch >= _EVOLVES and not self._evolved:
            self._job.java.refresh()
            self._job.java.updateSpec().removeField("p").commit()
            self._evolved = True
        if batch >= _EVOLVES + _RESTARTS and not self._restarted:
            self._job = self._started(name="job-2")
            self._restarted = True
        if publishes(batch):
            self._publish(batch, rows)
        elif deletes(batch):
            self._job.delete(*map(_values, rows))
        else:
            self._job.upsert(*map(_values, rows))
        later = batch + _STAGED_BEFORE
        if later % PUBLISHED_EVERY == 0 and later not in self._staged:
            self._staged[later] = self._job.stage(*map(_values, upserted(later)), wap=f"audit-{later}")

    def _publish(self, batch: int, rows: tuple[Row, ...]) -> None:
        if batch not in self._staged:
            self._staged[batch] = self._job.stage(*map(_values, rows), wap=f"audit-{batch}")
        self._job.java.refresh()
        self._job.java.manageSnapshots().cherrypick(self._staged[batch]).commit()

    def _started(self, name: str = "job-1") -> UpsertJob:
        jvm = self._spark._jvm  # noqa: SLF001 - the only way to Iceberg's own API
        java = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
            self._spark._jsparkSession,  # noqa: SLF001
            f"{CATALOG}.{identifier(Name.UPSERTS)}",
        )
        spec = java.spec()
        return UpsertJob(
            jvm=jvm,
            java=java,
            folder=self._folder,
            spec=spec.specId(),
            places=() if spec.isUnpartitioned() else ("p",),
            name=name,
        )


def _values(row: Row) -> iceberg_upserts.Row:
    return int(row.key), int(row.partition), str(row.value)


def main() -> int:
    """Write until told to stop. Returns 0 however many commits failed; the record has them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="the folder of the table's data files")
    parser.add_argument("--catalog", type=json.loads, required=True, help="the catalog's properties: a JSON object")
    parser.add_argument("--jar", type=Path, required=True, help="the driver that the catalog needs")
    parser.add_argument("--record", type=Path, required=True, help="where every batch and its ending is recorded")
    parser.add_argument("--every", type=float, default=2, metavar="SECONDS", help="the least time between two commits")
    asked = parser.parse_args()
    writing_time = WritingTime(None)
    spark = start_spark(CATALOG, asked.catalog, jars=(asked.jar,))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # pyspark has installed its own handler
    write_on(UpsertCommitter(spark, asked.folder), batches(upserted), asked.record, writing_time, every=asked.every)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
