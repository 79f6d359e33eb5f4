"""The writer's loop: one batch after another. Every attempt is recorded, and a failed batch is tried again."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Protocol

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from lakewarden.demo.writers.orders import RecordWriter, Row, read_record
from lakewarden.executors.worker import java

_WORDS = 2000


class Committer(Protocol):
    """Commits batches, one after another."""

    def commit(self, batch: int, rows: tuple[Row, ...]) -> None:
        """Commit one batch. A batch that failed may be given again. Raises any error of the engine."""
        ...


def write_on(
    committer: Committer, stream: Iterator[tuple[Row, ...]], record: Path, writing_time: WritingTime, *, every: float
) -> None:
    """Commit the stream's batches, at most one every `every` seconds. The first batch is the one after the record's
    last.
    """
    before = read_record(record)
    done = len(before.acknowledged())
    attempt = len(before.batches)
    writer = RecordWriter(record)
    for batch, rows in enumerate(islice(stream, done, None), start=done + 1):
        acknowledged = False
        while not acknowledged:
            if not writing_time.goes_on():
                return
            attempt += 1
            earliest_next = time.monotonic() + every
            writer.begun(attempt, rows)
            try:
                committer.commit(batch, rows)
            except Exception as error:  # noqa: BLE001 - the edge of the writer's loop: recorded, counted, tried again
                writer.failed(attempt, _text_of(error))
            else:
                writer.acknowledged(attempt)
                writing_time.start_counting()
                acknowledged = True
            writing_time.sleep_until(earliest_next)


def _text_of(error: Exception) -> str:
    """Return the text of an error: its beginning, and the causes, which are far below in a Java stack trace."""
    text = str(error)
    causes = [line for line in text.splitlines() if line.startswith("Caused by: ")]
    return "\n".join([text[:_WORDS], *causes])[: 2 * _WORDS]


# The arguments that every writer of the demo has.


def add_writer_arguments(parser: argparse.ArgumentParser, *, every: float, needs_options: bool = True) -> None:
    """Add the arguments of every writer. `every` is the default pause between two commits, in seconds.

    A writer that `needs_options` cannot be started without those of a writer beside Lakewarden.
    """
    parser.add_argument(
        "--options",
        type=Path,
        required=needs_options,
        help="the options that a writer beside Lakewarden must set: a JSON object",
    )
    parser.add_argument("--record", type=Path, required=True, help="the record of every batch and its ending")
    parser.add_argument("--seconds", type=float, help="how long, from the first commit; for ever by default")
    parser.add_argument(
        "--every", type=float, default=every, metavar="SECONDS", help="the least time between two commits"
    )
    parser.add_argument("--seed", type=int, default=0, help="which stream of batches")


# The Spark of a demo's writer: one core, one gigabyte, everything on the loopback interface.


def small_spark(jars: Iterable[Path], conf: Mapping[str, str]) -> SparkSession:
    """Start it with jars on its class path and further settings. Its JVM keeps time in UTC."""
    os.environ["JAVA_HOME"] = str(java.java_home())
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    whole = {
        "spark.master": "local[1]",
        "spark.app.name": "demo-writer",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraClassPath": os.pathsep.join(str(jar) for jar in jars),
        "spark.driver.extraJavaOptions": f"-Duser.timezone=UTC {java.LIGHT}",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **conf,
    }
    context = SparkContext(conf=SparkConf().setAll(list(whole.items())))
    context.setLogLevel("WARN")
    return SparkSession(context)


# Whether a writer continues: until its time is up, until SIGTERM, or until the process that started it is gone.


class WritingTime:
    """Counts `seconds` once it is told to; None is for ever. Must be created in the main thread, for the signals."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._deadline: float | None = None
        self._is_ending = False
        self._parent = os.getppid()
        signal.signal(signal.SIGTERM, self._ask)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is for the process that started this one

    def start_counting(self) -> None:
        """Count the seconds from now, unless the count has begun."""
        if self._seconds is not None:
            self._deadline = self._deadline or time.monotonic() + self._seconds

    def goes_on(self) -> bool:
        """Whether another batch may begin."""
        in_time = self._deadline is None or time.monotonic() < self._deadline
        return in_time and not self._is_ending and os.getppid() == self._parent

    def sleep_until(self, moment: float) -> None:
        """Sleep until the monotonic `moment`, or until there is a reason to end."""
        while self.goes_on() and (left := moment - time.monotonic()) > 0:
            time.sleep(min(left, 0.1))

    def _ask(self, _signal: int, _frame: FrameType | None) -> None:
        self._is_ending = True
