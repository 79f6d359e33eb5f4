"""Two queries of Spark's Structured Streaming that read a table and keep their checkpoints in its folder.

    python -m live.iceberg.together.spark_queries --directory DIR --catalog JSON --jar JAR --readings DIR

One query runs all the time, with the trigger `processingTime`, and is restarted now and then from its checkpoint. The
other one runs with `availableNow` and ends. It is started again and again. Around each start the files of the
checkpoints are given the age of orphans.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from pyspark.sql import SparkSession

from lakewarden.demo.formats.iceberg.writer import start_spark
from live.iceberg.catalog_demo import CATALOG
from live.iceberg.orphan_files import age
from live.iceberg.together.tables import Name, identifier, open_catalog

CONTINUOUS, AVAILABLE = "continuous", "available-now"
STREAMS = (CONTINUOUS, AVAILABLE)
LONGEST_LAG = "2m"
"""What is declared for each of them."""

_BETWEEN_STARTS_SECONDS = 70.0
"""More than the `max_snapshot_age` of the suite: without a declaration, the snapshot where a query stands expires."""

_TRIGGERS: Mapping[str, Mapping[str, Any]] = {
    CONTINUOUS: {"processingTime": "2 seconds"},
    AVAILABLE: {"availableNow": True},
}


@dataclass(frozen=True, kw_only=True, slots=True)
class MicroBatch:
    """The ids of one micro-batch of a query, or why the query failed. A query that was stopped in the middle of a
    micro-batch repeats it under the same number. A query that has lost its checkpoint begins again with number 0.
    """

    number: int = -1
    ids: tuple[int, ...] = ()
    failure: str = ""


def read_micro_batches(path: Path) -> Sequence[MicroBatch]:
    """Return what a query has recorded so far, each micro-batch once."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    except FileNotFoundError:
        return []
    found: list[dict[str, Any]] = [json.loads(line) for line in lines if line.endswith("\n")]
    return list(dict.fromkeys(MicroBatch(**{**one, "ids": tuple(sorted(one["ids"]))}) for one in found))


class Streams:
    """Starts the queries on a table, and records their micro-batches in a folder."""

    def __init__(self, spark: SparkSession, *, location: Path, readings: Path) -> None:
        self._spark: Any = spark
        self._checkpoints = location / "checkpoint"
        self._readings = readings
        # The first offset of a query by availableNow must name no snapshot: docs/iceberg.md, incremental readers.
        self._begun = str(int(time.time() * 1000))

    def start(self, name: str) -> Any:
        """Start a query from its checkpoint, and return it."""

        def keep(frame: Any, number: int) -> None:
            self.record(name, MicroBatch(number=number, ids=tuple(row["id"] for row in frame.select("id").collect())))

        rows = self._spark.readStream.option("stream-from-timestamp", self._begun)
        written = rows.table(f"{CATALOG}.{identifier(Name.STREAMED)}").writeStream.foreachBatch(keep)
        return written.option("checkpointLocation", str(self._checkpoints / name)).trigger(**_TRIGGERS[name]).start()

    def catch_up(self, name: str) -> None:
        """Run a query until it has read all that is there. Its failure is recorded."""
        query = self.start(name)
        try:
            query.awaitTermination() if name == AVAILABLE else query.processAllAvailable()
        except Exception as error:  # noqa: BLE001 - whatever ends a foreign query: recorded, and counted as a failure
            self.record(name, MicroBatch(failure=f"{type(error).__name__}: {error}"[:2000]))
        query.stop()

    def look(self, query: Any) -> Any:
        """Return a query by `processingTime`, started again if it has failed."""
        if query.isActive:
            return query
        self.record(CONTINUOUS, MicroBatch(failure=str(query.exception())[:2000]))
        return self.start(CONTINUOUS)

    def record(self, name: str, batch: MicroBatch) -> None:
        """Write down a micro-batch or a failure."""
        with (self._readings / f"{name}.jsonl").open("a", encoding="utf-8") as output:
            output.write(json.dumps(asdict(batch)) + "\n")

    def grow_old(self) -> None:
        """Give the files of the checkpoints the age of orphans."""
        for file in self._checkpoints.rglob("*"):
            age(file)


def main() -> int:
    """Read until told to stop. Returns 0 however often a query failed; the record has it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", type=Path, required=True, help="the directory of the suite")
    parser.add_argument("--catalog", type=json.loads, required=True, help="the catalog's properties: a JSON object")
    parser.add_argument("--jar", type=Path, required=True, help="the driver that the catalog needs")
    parser.add_argument("--readings", type=Path, required=True, help="the folder where the queries are recorded")
    asked = parser.parse_args()
    stopping: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        stopping.append(number)

    parent = os.getppid()
    table = open_catalog(asked.directory).load_table(identifier(Name.STREAMED))
    spark = start_spark(CATALOG, asked.catalog, jars=(asked.jar,))
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # pyspark has installed its own handler
    streams = Streams(spark, location=Path(table.location().removeprefix("file://")), readings=asked.readings)
    for name in STREAMS:
        streams.catch_up(name)
        streams.record(name, MicroBatch())
    query = streams.start(CONTINUOUS)
    while not stopping and os.getppid() == parent:
        until = time.monotonic() + _BETWEEN_STARTS_SECONDS
        while not stopping and time.monotonic() < until:
            query = streams.look(query)
            time.sleep(0.2)
        query.stop()
        streams.grow_old()
        streams.catch_up(AVAILABLE)
        streams.grow_old()
        query = streams.start(CONTINUOUS)
    query.stop()
    for name in STREAMS:
        streams.catch_up(name)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
