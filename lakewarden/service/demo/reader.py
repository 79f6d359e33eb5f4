"""A reader that queries a table all the time, and at the end once more: hudi-rs, which shares no code with Hudi's
Java, nor with anything that wrote or serviced the table.

    python -m lakewarden.service.demo.reader --path DIRECTORY --record FILE --queries FILE

Every answer is checked while the table is being written: it must be what some commit left behind, none older than
the newest that was acknowledged before the query began. A query that fails, or whose rows are not right, is recorded
as failed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType

from hudi import HudiReadOptions, HudiTable

from lakewarden.executors.demo.record import Batch, Ending, Row, read_record, rows_after

_COLUMNS = ("order_id", "region", "version")
_COMPLETED_IS_GONE = re.compile(r"\.hoodie/timeline/\d+_\d+\.[a-z]+ not found")


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """A table's newest rows by key, and how many log files had to be merged to find them."""

    rows: Mapping[str, Row]
    log_files: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Query:
    """One query of the reader's: what it found, how long it took, and why it counts as failed, if it does.

    `asked_again` is one that succeeded the second time: an instant was archived while it was being opened.
    """

    rows: int = 0
    log_files: int = 0
    seconds: float = 0.0
    failure: str = ""
    asked_again: bool = False


def read_snapshot(path: Path, *, as_of: str | None = None) -> Snapshot:
    """Return what a snapshot query finds, now or as of an instant. Raises ValueError for a key found twice, and
    whatever hudi-rs raises.
    """
    table = HudiTable(str(path))
    options = HudiReadOptions() if as_of is None else HudiReadOptions().with_as_of_timestamp(as_of)
    log_files = sum(len(part.log_file_names) for part in table.get_file_slices(options))
    rows: dict[str, Row] = {}
    for batch in table.read(options):
        columns = [batch.column(name).to_pylist() for name in _COLUMNS]
        for key, partition, value in zip(*columns, strict=True):
            if key in rows:
                raise ValueError(f"{key} was found twice")
            rows[key] = Row(key=key, partition=partition, value=value)
    return Snapshot(rows=rows, log_files=log_files)


def count_wrong_rows(found: Mapping[str, Row], expected: Mapping[str, Row]) -> int:
    """Return how many keys are missing, or should not be there, or hold another value than they should."""
    return sum(found.get(key) != expected.get(key) for key in found.keys() | expected.keys())


def complaint(found: Mapping[str, Row], *, before: tuple[Batch, ...], after: tuple[Batch, ...]) -> str:
    """Return what is wrong with an answer, given the record before and after the query; empty if nothing is.

    Right is the state after any commit from the newest that was acknowledged before the query to the newest that
    was begun before its end: a snapshot is never torn, and never stale.
    """
    oldest = len([batch for batch in before if batch.ending is Ending.ACKNOWLEDGED])
    attempts = [batch for batch in after if batch.ending is not Ending.FAILED]
    wrong = [count_wrong_rows(found, rows_after(attempts[:n])) for n in range(oldest, len(attempts) + 1)]
    if 0 in wrong:
        return ""
    return f"{min(wrong)} rows differ from every commit between {oldest} and {len(attempts)}"


def was_archived_meanwhile(error: Exception) -> bool:
    """Whether a query has found an instant when it listed the timeline, and not any more when it opened it.

    Whoever archives a Hudi table does that to a query now and then (docs/hudi.md); asked again, it succeeds.
    """
    return _COMPLETED_IS_GONE.search(str(error)) is not None


def read_queries(path: Path) -> list[Query]:
    """Return the queries that a reader has recorded so far; a missing file is a reader that has not begun."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    except FileNotFoundError:
        return []
    return [Query(**json.loads(line)) for line in lines if line.endswith("\n")]


class Reader:
    """Queries one table again and again, until it is told to stop or whoever started it is gone."""

    def __init__(self, *, path: Path, record: Path, queries: Path) -> None:
        self._path = path
        self._record = record
        self._queries = queries
        self._asked_to_stop = False
        self._parent = os.getppid()
        signal.signal(signal.SIGTERM, self._ask_to_stop)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is for whoever started us

    def read_on(self, *, pause_seconds: float) -> None:
        """Query until the end, with a breath between two queries."""
        with self._queries.open("a", encoding="utf-8") as output:
            while not self._asked_to_stop and os.getppid() == self._parent:
                output.write(json.dumps(asdict(self._query())) + "\n")
                output.flush()
                time.sleep(pause_seconds)

    def _query(self) -> Query:
        before = read_record(self._record)
        begun = time.monotonic()
        try:
            found, asked_again = self._answer()
        except Exception as error:  # noqa: BLE001 - the edge of the reader's loop: recorded, and counted as a failure
            return Query(seconds=time.monotonic() - begun, failure=f"{type(error).__name__}: {error}")
        return Query(
            rows=len(found.rows),
            log_files=found.log_files,
            seconds=time.monotonic() - begun,
            failure=complaint(found.rows, before=before.batches, after=read_record(self._record).batches),
            asked_again=asked_again,
        )

    def _answer(self) -> tuple[Snapshot, bool]:
        """Return the newest rows, and whether they were asked for again."""
        try:
            return read_snapshot(self._path), False
        except Exception as error:
            if not was_archived_meanwhile(error):
                raise
            return read_snapshot(self._path), True

    def _ask_to_stop(self, _signal: int, _frame: FrameType | None) -> None:
        self._asked_to_stop = True


def main() -> int:
    """Read until told to stop; returns 0 however many queries failed: the record of the queries says."""
    parser = argparse.ArgumentParser(description="query a Hudi table all the time")
    parser.add_argument("--path", type=Path, required=True, help="where the table is")
    parser.add_argument("--record", type=Path, required=True, help="the writer's record")
    parser.add_argument("--queries", type=Path, required=True, help="where every query and its ending is recorded")
    parser.add_argument("--pause", type=float, default=0.2, metavar="SECONDS", help="the breath between two queries")
    asked = parser.parse_args()
    Reader(path=asked.path, record=asked.record, queries=asked.queries).read_on(pause_seconds=asked.pause)
    return 0


if __name__ == "__main__":
    sys.exit(main())
