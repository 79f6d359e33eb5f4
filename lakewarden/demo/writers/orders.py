"""The orders of the demo's shop: endless, repeatable streams of small batches of upserts and deletes."""

from __future__ import annotations

import itertools
import json
import os
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

# The writer's own record: its batches and their answers, a JSON object per line, on disk before the writer continues.
# The right rows follow from it. A batch that was begun and never answered counts as failed: its writer died or hung.


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One change of one row: an upsert of `value`, or its deletion."""

    key: str
    partition: str
    value: int
    deleted: bool = False


class Ending(StrEnum):
    """How a batch ended, in the record's words."""

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """One commit of the writer. `answered` is when it was acknowledged or failed."""

    number: int
    rows: tuple[Row, ...]
    begun: datetime
    ending: Ending = Ending.OPEN
    answered: datetime | None = None
    message: str = ""

    @property
    def reason(self) -> str:
        """The innermost cause of a failed batch, in one line. If it was never answered, the line says so."""
        lines = self.message.splitlines() or [f"it is {self.ending}"]
        return next((line for line in reversed(lines) if line.startswith("Caused by: ")), lines[0])


class RecordWriter:
    """Appends to a record, durably."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")

    def begun(self, batch: int, rows: Iterable[Row]) -> None:
        """Record the batch that is about to be sent."""
        self._append({"batch": batch, "begun": _now(), "rows": [_as_list(row) for row in rows]})

    def acknowledged(self, batch: int) -> None:
        """Record that the commit returned without an error."""
        self._append({"batch": batch, "acknowledged": _now()})

    def failed(self, batch: int, message: str) -> None:
        """Record that the commit returned with an error."""
        self._append({"batch": batch, "failed": _now(), "message": message})

    def _append(self, entry: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(entry) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """All batches that a writer has recorded so far, the oldest first."""

    batches: tuple[Batch, ...] = ()

    def acknowledged(self) -> Sequence[Batch]:
        """Return the batches that were committed."""
        return [batch for batch in self.batches if batch.ending is Ending.ACKNOWLEDGED]

    def failures(self) -> Sequence[Batch]:
        """Return the batches that failed. After the writer's end, batches that were never answered count, too."""
        return [batch for batch in self.batches if batch.ending is not Ending.ACKNOWLEDGED]

    def expected_rows(self) -> Mapping[str, Row]:
        """Return the rows that a reader must find now, by key: the acknowledged batches, one after another."""
        return rows_after(self.acknowledged())


def merged(records: Iterable[Record]) -> Record:
    """Return one record of several writers. Each of them must have keys of its own."""
    batches = (batch for record in records for batch in record.batches)
    return Record(batches=tuple(sorted(batches, key=lambda batch: batch.begun)))


def rows_after(batches: Iterable[Batch]) -> Mapping[str, Row]:
    """Return the existing rows, by key, after `batches` were applied in their order."""
    living: dict[str, Row] = {}
    for batch in batches:
        for row in batch.rows:
            if row.deleted:
                living.pop(row.key, None)
            else:
                living[row.key] = row
    return living


def read_record(path: Path) -> Record:
    """Return the batches in the file. An unfinished last line is left out, a missing file is empty."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Record()
    batches: dict[int, Batch] = {}
    for line in text.splitlines(keepends=True):
        if line.endswith("\n"):
            batch = _read_entry(json.loads(line), batches)
            batches[batch.number] = batch
    return Record(batches=tuple(batches.values()))


def _read_entry(entry: Mapping[str, Any], batches: Mapping[int, Batch]) -> Batch:
    number = entry["batch"]
    if "begun" in entry:
        rows = tuple(Row(key=k, partition=p, value=v, deleted=d) for k, p, v, d in entry["rows"])
        return Batch(number=number, rows=rows, begun=datetime.fromisoformat(entry["begun"]))
    begun = batches[number]
    ending = Ending.ACKNOWLEDGED if Ending.ACKNOWLEDGED in entry else Ending.FAILED
    return Batch(
        number=number,
        rows=begun.rows,
        begun=begun.begun,
        ending=ending,
        answered=datetime.fromisoformat(entry[ending]),
        message=entry.get("message", ""),
    )


def _as_list(row: Row) -> list[Any]:
    return [row.key, row.partition, row.value, row.deleted]


def _now() -> str:
    return datetime.now(UTC).isoformat()


PARTITIONS = ("north", "south", "west")
_KEYS = 240
_UPSERTS = 15
_DELETES = 3

BATCHES_PER_DAY = 3
WARM_DAYS = 3
_NEW_ORDERS = 12
_UPDATES_PER_DAY = (6, 4, 2)  # today, yesterday, the day before

_ARRIVALS = 4
_LATEST_ARRIVAL_DAYS = 4


class Change(StrEnum):
    """The change of a table by one batch of `shifts`, all in one commit."""

    APPEND = "append"
    MERGE = "merge"
    DELETE = "delete"


_NEW: Mapping[Change, int] = {Change.APPEND: 12, Change.MERGE: 2, Change.DELETE: 0}
_PICKED_PER_DAY: Mapping[Change, tuple[int, ...]] = {
    Change.APPEND: (),
    Change.MERGE: (5, 3, 2),  # today, yesterday, the day before
    Change.DELETE: (1, 1, 1),
}


def change_of(batch: int) -> Change:
    """Return the change of batch `batch` of `shifts`, from 1. The changes take turns."""
    return tuple(Change)[(batch - 1) % len(Change)]


def day_by_count(batch: int) -> int:
    """Return the day of a batch if every day has `BATCHES_PER_DAY`."""
    return (batch - 1) // BATCHES_PER_DAY


def day_by_clock(seconds: float) -> Callable[[int], int]:
    """Return the day of a batch that is made now, if a day is so long."""
    return lambda _: int(time.time() / seconds)


def batches(seed: int) -> Iterator[tuple[Row, ...]]:
    """Yield the changes of one commit after another. Every change's value is the number of its batch, from 1.

    The first batch inserts half of the keys. Later batches update existing rows, insert new ones, insert deleted ones
    again, and delete some. No key is twice in one batch.
    """
    rng = random.Random(seed)  # noqa: S311 - a shop's customers, no secret
    keys = [f"order-{number:04}" for number in range(_KEYS)]
    living = set(keys[: _KEYS // 2])
    yield tuple(_row(key, 1) for key in sorted(living))
    number = 1
    while True:
        number += 1
        gone = set(rng.sample(sorted(living), _DELETES))
        changed = rng.sample([key for key in keys if key not in gone], _UPSERTS)
        living = (living - gone) | set(changed)
        yield (*(_row(key, number) for key in changed), *(_row(key, number, deleted=True) for key in sorted(gone)))


def days(seed: int) -> Iterator[tuple[Row, ...]]:
    """Yield the changes of one commit after another, in partitions that move on with time: a day has a few batches.

    Every batch brings new orders of today, changes some of today's and fewer of the two days before, brings late
    orders, and deletes one order of each warm day. A day that is not warm any more never changes again.
    """
    rng = random.Random(seed)  # noqa: S311 - a shop's customers, no secret
    living: dict[int, list[str]] = {}
    number = 0
    while True:
        today, number = number // BATCHES_PER_DAY, number + 1
        changed, gone = [], []
        for age, updates in enumerate(_UPDATES_PER_DAY[:WARM_DAYS]):
            orders = living.get(today - age, [])
            picked = rng.sample(orders, min(updates + 1, len(orders)))
            gone += picked[:1]
            changed += picked[1:]
        new = [_key(today, f"{number:04}", n) for n in range(_NEW_ORDERS)]
        living = {day: [key for key in keys if key not in gone] for day, keys in living.items()}
        living[today] = living.get(today, []) + new
        yield (
            *(_order_of_a_day(key, number) for key in (*new, *changed)),
            *(_order_of_a_day(key, number, deleted=True) for key in gone),
        )


def shifts(seed: int, day_of: Callable[[int], int] = day_by_count) -> Iterator[tuple[Row, ...]]:
    """Yield the changes of one commit after another, in partitions that move on with time. Each is of one kind only
    (`change_of`): new orders of today; changed orders of the warm days, and some late ones; or cancelled orders of the
    warm days. A day that is not warm any more never changes again. If nothing can be cancelled, a batch is empty.

    `day_of` returns the day of a batch, for example by the clock. Such a stream cannot be continued later.
    """
    rng = random.Random(seed)  # noqa: S311 - a shop's customers, no secret
    living: dict[int, list[str]] = {}
    for number in itertools.count(1):
        today, change = day_of(number), change_of(number)
        new = [_key(today, f"{number:04}", n) for n in range(_NEW[change])]
        picked = []
        for age, most in enumerate(_PICKED_PER_DAY[change]):
            orders = living.get(today - age, [])
            picked += rng.sample(orders, min(most, len(orders)))
        gone = set(picked) if change is Change.DELETE else set()
        living = {day: [key for key in keys if key not in gone] for day, keys in living.items()}
        living[today] = living.get(today, []) + new
        yield tuple(_order_of_a_day(key, number, deleted=key in gone) for key in (*new, *picked))


def arrivals(seed: int, day_of: Callable[[int], int] = day_by_count) -> Iterator[tuple[Row, ...]]:
    """Yield the batches of a writer that only appends: new orders of today, and a late one of a day before."""
    rng = random.Random(seed)  # noqa: S311 - a shop's customers, no secret
    for number in itertools.count(1):
        today = day_of(number)
        late = max(0, today - rng.randint(1, _LATEST_ARRIVAL_DAYS))
        days = (*[today] * _ARRIVALS, late)
        yield tuple(_order_of_a_day(_key(day, f"a{number:04}", n), number) for n, day in enumerate(days))


def _key(day: int, batch: str, number: int) -> str:
    return f"day-{day:04}-order-{batch}-{number:02}"


def _row(key: str, value: int, *, deleted: bool = False) -> Row:
    partition = PARTITIONS[int(key.removeprefix("order-")) % len(PARTITIONS)]
    return Row(key=key, partition=partition, value=value, deleted=deleted)


def _order_of_a_day(key: str, value: int, *, deleted: bool = False) -> Row:
    return Row(key=key, partition=key.partition("-order-")[0], value=value, deleted=deleted)
