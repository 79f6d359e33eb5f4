"""The writer's loop: one batch after another, every attempt recorded, what failed tried again."""

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
        """Commit one batch; a batch that failed may be given again. Raises whatever the engine raises."""
        ...


class Patience(Protocol):
    """Says when it is enough."""

    def start_counting(self) -> None:
        """Note that the first commit is there."""
        ...

    def goes_on(self) -> bool:
        """Whether another attempt may begin."""
        ...

    def sleep_until(self, moment: float) -> None:
        """Sleep until the monotonic `moment`, or until there is a reason to end."""
        ...


def write_on(
    committer: Committer, stream: Iterator[tuple[Row, ...]], record: Path, patience: Patience, *, every: float
) -> None:
    """Commit the stream's batches, at most one every `every` seconds, from where the record says that it is."""
    before = read_record(record)
    done = len(before.acknowledged())
    attempt = len(before.batches)
    writer = RecordWriter(record)
    for batch, rows in enumerate(islice(stream, done, None), start=done + 1):
        acknowledged = False
        while not acknowledged:
            if not patience.goes_on():
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
                patience.start_counting()
                acknowledged = True
            patience.sleep_until(earliest_next)


def _told(error: Exception) -> str:
    """Return what an error says: how it begins, and the causes, which stand far below in a stack of Java's."""
    text = str(error)
    causes = [line for line in text.splitlines() if line.startswith("Caused by: ")]
    return "\n".join([text[:_WORDS], *causes])[: 2 * _WORDS]
