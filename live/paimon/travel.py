"""The rows of every snapshot that is left, by a reader that uses no code of Paimon."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lakewarden.demo.reader import count_wrong_rows
from lakewarden.demo.writers.orders import Record, Row, rows_after
from live.journey import Journey
from live.paimon.history import SnapshotsSeen
from live.paimon.plain_reader import PlainReader


def travel(reader: PlainReader, seen: SnapshotsSeen, record: Record) -> list[Journey]:
    """Read every snapshot, and compare its rows with the writer's record.

    The writer gives its commits the numbers of its batches. So it is known exactly which batches a snapshot has.
    """
    found = []
    for number, snapshot in reader.snapshots().items():
        journey = Journey(instant=str(number), operation=str(snapshot["commitKind"]))
        try:
            rows = reader.rows(snapshot)
        except (OSError, ValueError, KeyError) as error:
            found.append(replace(journey, failure=f"{type(error).__name__}: {error}"))
            continue
        failure = f"{len(rows.twice)} keys are in several buckets" if rows.twice else ""
        wrong = count_wrong_rows(rows.rows, _written(record, until=seen.written_until(number)))
        found.append(replace(journey, wrong=wrong, failure=failure))
    return found


def _written(record: Record, *, until: int) -> Mapping[str, Row]:
    return rows_after([batch for batch in record.batches if batch.number <= until])
