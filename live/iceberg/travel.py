"""Every snapshot that the clean has left, read by pyiceberg, which is not the code under test."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from pyiceberg.table import Table

from lakewarden.demo.formats.iceberg.reader import read_snapshot
from lakewarden.demo.reader import complaints
from lakewarden.demo.writers.orders import Record, Row
from live.journey import Journey

_PRECISION = timedelta(milliseconds=1)
"""The resolution of the times of snapshots, which are cut off."""


Rows = Callable[[int], Mapping[str, Row]]
"""Returns the rows of a snapshot. Raises any error of the foreign reader."""


def rows_of(table: Table) -> Rows:
    """Return the reader of the table's snapshots."""
    return lambda snapshot: read_snapshot(table, snapshot=snapshot).rows


def travel(table: Table, records: Sequence[Record], rows_at: Rows | None = None) -> list[Journey]:
    """Read the table at every snapshot, and compare its rows with the writers' records as of that snapshot."""
    rows_at = rows_at or rows_of(table)
    found = []
    for snapshot in table.metadata.snapshots:
        operation = "" if snapshot.summary is None else str(snapshot.summary.operation.value)
        journey = Journey(instant=str(snapshot.snapshot_id), operation=operation)
        at = datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC)
        try:
            rows = rows_at(snapshot.snapshot_id)
        except Exception as error:  # noqa: BLE001 - whatever a foreign reader raises is a journey that failed
            found.append(replace(journey, failure=f"{type(error).__name__}: {error}"))
            continue
        before = [acknowledged_by(at, record) for record in records]
        after = [begun_by(at, record) for record in records]
        found.append(replace(journey, failure=complaints(rows, before=before, after=after)))
    return found


def acknowledged_by(at: datetime, record: Record) -> Record:
    """Return what must be in a snapshot of that time.

    A snapshot gets its time after its parent was read. It is committed only if its parent is still the newest one. So
    everything that was acknowledged before that time is in it.
    """
    certain = (b for b in record.acknowledged() if b.answered is not None and b.answered < at)
    return Record(batches=tuple(certain))


def begun_by(at: datetime, record: Record) -> Record:
    """Return what may be in a snapshot of that time."""
    return Record(batches=tuple(batch for batch in record.batches if batch.begun < at + _PRECISION))
