"""The writer's own record: its batches and their answers. The right rows follow from it.

One JSON object per line, each on disk before the writer continues:

    {"batch": 7, "begun": "<UTC>", "rows": [["order-0042", "north", 7, false], ...]}
    {"batch": 7, "acknowledged": "<UTC>"}
    {"batch": 7, "failed": "<UTC>", "message": "..."}

A batch that was begun and never answered counts as failed: its writer died or hung.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any


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


def _read_entry(entry: Mapping[str, Any], known: Mapping[int, Batch]) -> Batch:
    number = entry["batch"]
    if "begun" in entry:
        rows = tuple(Row(key=k, partition=p, value=v, deleted=d) for k, p, v, d in entry["rows"])
        return Batch(number=number, rows=rows, begun=datetime.fromisoformat(entry["begun"]))
    begun = known[number]
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
