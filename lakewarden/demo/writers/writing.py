"""The writer's loop: one batch after another. Every attempt is recorded, and a failed batch is tried again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Protocol

from lakewarden.demo.writers.record import RecordWriter, Row, read_record

_WORDS = 2000


class Committer(Protocol):
    """Commits batches, one after another."""

    def commit(self, batch: int, rows: tuple[Row, ...]) -> None:
        """Commit one batch. A batch that failed may be given again. Raises any error of the engine."""
        ...


class Continuing(Protocol):
    """Decides when the writer ends."""

    def start_counting(self) -> None:
        """Note that the first commit has succeeded."""
        ...

    def goes_on(self) -> bool:
        """Whether another attempt may begin."""
        ...

    def sleep_until(self, moment: float) -> None:
        """Sleep until the monotonic `moment`, or until there is a reason to end."""
        ...


def write_on(
    committer: Committer, stream: Iterator[tuple[Row, ...]], record: Path, writing_time: Continuing, *, every: float
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
                writer.failed(attempt, _told(error))
            else:
                writer.acknowledged(attempt)
                writing_time.start_counting()
                acknowledged = True
            writing_time.sleep_until(earliest_next)


def _told(error: Exception) -> str:
    """Return the text of an error: its beginning, and the causes, which are far below in a Java stack trace."""
    text = str(error)
    causes = [line for line in text.splitlines() if line.startswith("Caused by: ")]
    return "\n".join([text[:_WORDS], *causes])[: 2 * _WORDS]
