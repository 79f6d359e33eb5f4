"""A reader that queries a table all the time, and once more at the end. How a table is read is the format's own
(`formats/hudi/reader.py`, `formats/iceberg/reader.py`).

Every answer is checked while the table is being written. It must be the state after some commit, and no older than the
newest commit that was acknowledged before the query began. A query that fails, or with wrong rows, is recorded as
failed.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType

from lakewarden.demo.writers.orders import Batch, Ending, Record, Row, read_record, rows_after


@dataclass(frozen=True, kw_only=True, slots=True)
class TableRows:
    """A table's rows by key, and the number of files that had to be read to find them (`FormatDemo.counted`)."""

    rows: Mapping[str, Row]
    counted: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Query:
    """One query of the reader: what it found, how long it took and, if it counts as failed, why.

    `asked_again` is a query that succeeded the second time, after a failure that passes by itself.
    """

    rows: int = 0
    counted: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    failure: str = ""
    asked_again: bool = False


def count_wrong_rows(rows: Mapping[str, Row], expected: Mapping[str, Row]) -> int:
    """Return the number of keys that are missing, surplus, or with another value than expected."""
    return sum(rows.get(key) != expected.get(key) for key in rows.keys() | expected.keys())


def complaint(rows: Mapping[str, Row], *, before: tuple[Batch, ...], after: tuple[Batch, ...]) -> str:
    """Return what is wrong with an answer, given a writer's record before and after the query. Empty if nothing is
    wrong.

    An answer is right if it is the state after one of these commits: the newest that was acknowledged before the query,
    the newest that was begun before its end, or one between them. A snapshot is never torn, and never stale.
    """
    oldest = len([batch for batch in before if batch.ending is Ending.ACKNOWLEDGED])
    attempts = [batch for batch in after if batch.ending is not Ending.FAILED]
    wrong = [count_wrong_rows(rows, rows_after(attempts[:n])) for n in range(oldest, len(attempts) + 1)]
    if 0 in wrong:
        return ""
    return f"{min(wrong)} rows differ from every commit between {oldest} and {len(attempts)}"


def complaints(rows: Mapping[str, Row], *, before: Sequence[Record], after: Sequence[Record]) -> str:
    """Return what is wrong with an answer if each of several writers has keys of its own. Empty if nothing is wrong."""
    strangers = dict(rows)
    wrong = []
    for earlier, later in zip(before, after, strict=True):
        keys = {row.key for batch in later.batches for row in batch.rows}
        own = {key: strangers.pop(key) for key in keys & strangers.keys()}
        wrong.append(complaint(own, before=earlier.batches, after=later.batches))
    if strangers:
        wrong.append(f"{len(strangers)} rows were written by no writer")
    return "; ".join(filter(None, wrong))


def read_queries(path: Path) -> list[Query]:
    """Return the queries that a reader has recorded so far. A missing file means that the reader has not begun."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    except FileNotFoundError:
        return []
    return [Query(**json.loads(line)) for line in lines if line.endswith("\n")]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of every reader."""
    parser.add_argument(
        "--record", type=Path, action="append", required=True, help="the record of a writer; given once for each writer"
    )
    parser.add_argument("--queries", type=Path, required=True, help="the record of every query and its ending")
    parser.add_argument("--pause", type=float, default=0.2, metavar="SECONDS", help="the pause between two queries")


def read_on(
    read: Callable[[], TableRows],
    arguments: argparse.Namespace,
    *,
    passes: Callable[[Exception], bool] = lambda _: False,
) -> None:
    """Query until told to stop, or until the process that started this one is gone. `read` makes one query. If its
    error `passes` by itself, the query is repeated once.
    """
    _Reader(read, records=arguments.record, queries=arguments.queries, passes=passes).read_on(
        pause_seconds=arguments.pause
    )


class _Reader:
    """Queries one table again and again. Must be created in the main thread, for the signals."""

    def __init__(
        self,
        read: Callable[[], TableRows],
        *,
        records: Sequence[Path],
        queries: Path,
        passes: Callable[[Exception], bool],
    ) -> None:
        self._read = read
        self._records = records
        self._queries = queries
        self._passes = passes
        self._asked_to_stop = False
        self._parent = os.getppid()
        signal.signal(signal.SIGTERM, self._ask_to_stop)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is for the process that started this one

    def read_on(self, *, pause_seconds: float) -> None:
        """Query until the end, with a pause between two queries."""
        with self._queries.open("a", encoding="utf-8") as output:
            while not self._asked_to_stop and os.getppid() == self._parent:
                output.write(json.dumps(asdict(self._query())) + "\n")
                output.flush()
                time.sleep(pause_seconds)

    def _query(self) -> Query:
        before = self._written()
        begun = time.monotonic()
        try:
            answer, asked_again = self._answer()
        except Exception as error:  # noqa: BLE001 - the edge of the reader's loop: recorded, and counted as a failure
            return Query(seconds=time.monotonic() - begun, failure=f"{type(error).__name__}: {error}")
        return Query(
            rows=len(answer.rows),
            counted=answer.counted,
            seconds=time.monotonic() - begun,
            failure=complaints(answer.rows, before=before, after=self._written()),
            asked_again=asked_again,
        )

    def _written(self) -> list[Record]:
        return [read_record(record) for record in self._records]

    def _answer(self) -> tuple[TableRows, bool]:
        """Return the newest rows, and whether the query was repeated."""
        try:
            return self._read(), False
        except Exception as error:
            if not self._passes(error):
                raise
            return self._read(), True

    def _ask_to_stop(self, _signal: int, _frame: FrameType | None) -> None:
        self._asked_to_stop = True
