"""A live writer of several Hudi tables, one after another, in one small Spark.

    python -m faults.hostile.writers --lake DIRECTORY --tables N

Table `n` lies in `DIRECTORY/good-n`. Its options are in `DIRECTORY/good-n.json`, its record is
`DIRECTORY/good-n.jsonl`. The writer ends on SIGTERM, or if the process that started it is gone. It always ends between
two commits.
"""

from __future__ import annotations

import argparse
import itertools
import json
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from lakewarden.demo.formats.hudi.options import TableType, Workload, table_options
from lakewarden.demo.formats.hudi.writer import BatchCommitter, start_spark
from lakewarden.demo.writers import orders
from lakewarden.demo.writers.orders import RecordWriter, Row
from lakewarden.demo.writers.writing import WritingTime

_WORDS = 2000


@dataclass
class _Writing:
    """The writing of one table. Its next batch is repeated until it is acknowledged."""

    committer: BatchCommitter
    record: RecordWriter
    stream: Iterator[tuple[Row, ...]]
    pending: tuple[Row, ...] | None = None
    batch: int = 0
    attempt: int = 0

    def commit(self) -> None:
        if self.pending is None:
            self.pending, self.batch = next(self.stream), self.batch + 1
        self.attempt += 1
        self.record.begun(self.attempt, self.pending)
        try:
            self.committer.commit(self.batch, self.pending)
        except Exception as error:  # noqa: BLE001 - the edge of the writer's loop: recorded, counted, tried again
            self.record.failed(self.attempt, str(error)[:_WORDS])
        else:
            self.record.acknowledged(self.attempt)
            self.pending = None


def _writing(spark: SparkSession, lake: Path, number: int) -> _Writing:
    name = f"good-{number}"
    own = table_options(name, kind=TableType.MOR, workload=Workload.REGIONS)
    options = {**own, **json.loads((lake / f"{name}.json").read_text(encoding="utf-8"))}
    return _Writing(
        committer=BatchCommitter(spark, path=lake / name, options=options),
        record=RecordWriter(lake / f"{name}.jsonl"),
        stream=orders.batches(number),
    )


def main() -> int:
    """Write until told to stop. Returns 0 however many commits failed; the records have them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lake", type=Path, required=True)
    parser.add_argument("--tables", type=int, required=True)
    parser.add_argument("--every", type=float, default=1.0, help="the least seconds between two commits")
    asked = parser.parse_args()
    writing_time = WritingTime(None)
    spark = start_spark()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # pyspark has installed its own handler
    writings = [_writing(spark, asked.lake, number) for number in range(asked.tables)]
    for writing in itertools.cycle(writings):
        if not writing_time.goes_on():
            break
        earliest_next = time.monotonic() + asked.every
        writing.commit()
        writing_time.sleep_until(earliest_next)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
