"""A live writer of a plain directory: small Parquet files in partitions that move on with time, and some late ones.

    python -m lakewarden.demo.formats.directory.writer --path FOLDER --options FILE --record FILE

It ends `--seconds` after its first commit, on SIGTERM, or if the process that started it is gone. It always ends
between two commits. It records failed commits and tries the same rows again.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
from pyarrow import parquet

from lakewarden.demo.writers.orders import Row
from lakewarden.demo.writers.writing import WritingTime, add_writer_arguments, write_on

# How one batch of rows becomes one file of a partition. It is hidden while it is written, and then renamed.

SCHEMA = pa.schema([("order_id", pa.string()), ("version", pa.int32())])
PARTITION_SECONDS = 6
"""A partition is of so many seconds."""

_ROWS = 12
_LATE_EVERY = 5


def arrivals(seed: int, now: Callable[[], float] = time.time) -> Iterator[tuple[Row, ...]]:
    """Yield the batches of a job that appends: new orders of the partition of now. Each fifth batch is late, and of the
    partition before. All rows of a batch are in one partition, so that one file has them all.
    """
    for number in itertools.count(1):
        late = number % _LATE_EVERY == 0
        partition = partition_at(now() - PARTITION_SECONDS * late)
        yield tuple(
            Row(key=f"order-{seed}-{number:06}-{n:02}", partition=partition, value=number) for n in range(_ROWS)
        )


def partition_at(seconds: float) -> str:
    """Return the path of the partition of a moment below the table."""
    begun = datetime.fromtimestamp(int(seconds) // PARTITION_SECONDS * PARTITION_SECONDS, UTC)
    return f"dt={begun:%Y-%m-%d}/at={begun:%H%M%S}"


class FileCommitter:
    """Writes each batch as one file without an extension. Fulfils `writing.Committer`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._id = uuid4()

    def commit(self, batch: int, rows: tuple[Row, ...]) -> None:
        """Write the rows. A reader sees all of them after the rename, and none before it."""
        home = self._folder / rows[0].partition
        home.mkdir(parents=True, exist_ok=True)
        name = f"part-{self._id}-0-{batch}"
        hidden = home / f".{name}.inprogress.{uuid4()}"
        arrays = [pa.array([row.key for row in rows]), pa.array([row.value for row in rows], pa.int32())]
        with hidden.open("wb") as file:
            # Flink's files have no schema of Arrow in their footers
            parquet.write_table(pa.Table.from_arrays(arrays, schema=SCHEMA), file, store_schema=False)
            file.flush()
            os.fsync(file.fileno())
        hidden.rename(home / name)


def main() -> int:
    """Write until told to stop. Returns 0 however many commits failed; the record has them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--path", type=Path, required=True, help="the folder of the directory")
    add_writer_arguments(parser, every=1, needs_options=False)
    arguments = parser.parse_args()
    writing_time = WritingTime(arguments.seconds)
    write_on(
        FileCommitter(arguments.path), arrivals(arguments.seed), arguments.record, writing_time, every=arguments.every
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
