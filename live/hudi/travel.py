"""Time travel to every instant that the clean has left readable. hudi-rs reads it, and is not the code under test."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fastavro
from hudi import HudiTable

from lakewarden.demo.formats.hudi.options import BATCH
from lakewarden.demo.formats.hudi.reader import read_snapshot
from lakewarden.demo.writers.orders import Batch, Record, Row, rows_after
from live.journey import Journey

_OURS = frozenset({"COMPACT", "LOG_COMPACT", "CLUSTER"})
_TIMELINE = Path(".hoodie") / "timeline"
_SINK = "_hudi_streaming_sink_checkpoint"
_COMPLETED = re.compile(r"(?P<requested>\d+)_(?P<completed>\d+)\.(?P<action>[a-z]+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Commit:
    """One completed instant of the active timeline, with the time of its completion. `operation` is Hudi's word for it.
    `micro_batch` is the number that a streaming sink left in it. `signed` is what one of several writers left in it:
    its name, and the number of its batch.
    """

    instant: str
    completed: str
    operation: str
    micro_batch: int | None = None
    signed: tuple[str, int] | None = None

    @property
    def writes(self) -> bool:
        """Whether a writer made it."""
        return self.operation not in _OURS


def commits(table: Path) -> list[Commit]:
    """Return the completed commits of the active timeline, in the order of their instants."""
    timeline = HudiTable(str(table)).get_timeline()
    completions = {found["requested"]: found["completed"] for found in _completed(table)}
    instants = [
        *timeline.get_completed_commits(),
        *timeline.get_completed_deltacommits(),
        *timeline.get_completed_replacecommits(),
    ]
    found = []
    for instant in sorted({i.timestamp: i for i in instants}.values(), key=lambda i: i.timestamp):
        metadata = json.loads(timeline.get_instant_metadata_in_json(instant))
        extra = metadata.get("extraMetadata") or {}
        sink = json.loads(extra.get(_SINK, "{}"))
        found.append(
            Commit(
                instant=instant.timestamp,
                completed=completions.get(instant.timestamp, ""),
                operation=str(metadata.get("operationType")),
                micro_batch=max((int(number) for number in sink.values()), default=None),
                signed=_signature(extra.get(BATCH)),
            )
        )
    return found


def earliest_retained(table: Path) -> str:
    """Return the instant up to which the newest clean has deleted; empty before the first one."""
    cleans = sorted(found[0] for found in _completed(table) if found["action"] == "clean")
    if not cleans:
        return ""
    with (table / _TIMELINE / cleans[-1]).open("rb") as file:
        metadata: Any = next(iter(fastavro.reader(file)))
    return str(metadata["earliestCommitToRetain"] or "")


def travel(table: Path, records: Mapping[str, Record]) -> list[Journey]:
    """Read the table at every retained instant and compare it with the records of its writers as of that instant. Each
    of several writers has keys of its own, and signs its commits with its name in `records`.
    """
    earliest = earliest_retained(table)
    all_commits = commits(table)
    first_write = next((commit.instant for commit in all_commits if commit.writes), "")
    retained = [commit for commit in all_commits if commit.instant >= max(earliest, first_write)]
    return [_journey(table, commit, all_commits, records) for commit in retained]


def _completed(table: Path) -> list[re.Match[str]]:
    names = (path.name for path in (table / _TIMELINE).iterdir())
    return [found for name in names if (found := _COMPLETED.fullmatch(name))]


def _signature(text: str | None) -> tuple[str, int] | None:
    if text is None:
        return None
    writer, _, number = text.rpartition(":")
    return writer, int(number)


def _journey(table: Path, commit: Commit, all_commits: Sequence[Commit], records: Mapping[str, Record]) -> Journey:
    journey = Journey(instant=commit.instant, operation=commit.operation)
    if commit.writes and batch_of(commit, records) is None:
        return replace(journey, failure="no batch was open at its write")
    try:
        found = read_snapshot(table, as_of=commit.instant).rows
    except Exception as error:  # noqa: BLE001 - whatever a foreign reader raises is a journey that failed
        return replace(journey, failure=f"{type(error).__name__}: {error}")
    expected = rows_at(commit.instant, all_commits, records)
    differing = {key for key in found.keys() | expected.keys() if found.get(key) != expected.get(key)}
    if not differing:
        return journey
    overtaken = list(overtakings(all_commits, records, as_of=commit.instant))
    excused = differing <= {row.key for _, batch in overtaken for row in batch.rows}
    by = min((compaction for compaction, _ in overtaken), default="")
    return replace(journey, wrong=len(differing), overtaken=by if excused else "")


def rows_at(instant: str, all_commits: Sequence[Commit], records: Mapping[str, Record]) -> Mapping[str, Row]:
    """Return the rows that a query as of an instant must find. The time in the instant of a write counts, not the time
    of its completion. A write that has left the active timeline is older than any retained instant.
    """
    at = time_of(instant)
    later = {id(batch_of(commit, records)) for commit in all_commits if commit.writes and commit.instant > instant}
    rows: dict[str, Row] = {}
    for record in records.values():
        begun = [batch for batch in record.acknowledged() if batch.begun <= at]
        rows |= rows_after(batch for batch in begun if id(batch) not in later)
    return rows


def overtakings(
    all_commits: Sequence[Commit], records: Mapping[str, Record], *, as_of: str
) -> Iterator[tuple[str, Batch]]:
    """Yield the batches whose writes were in flight when a compaction was planned that `as_of` does not show. Each
    comes with its compaction.
    """
    compactions = [commit.instant for commit in all_commits if commit.operation == "COMPACT" and commit.instant > as_of]
    for write in all_commits:
        batch = batch_of(write, records) if write.writes and write.instant <= as_of else None
        overtaking = next((c for c in compactions if write.instant < c < write.completed), None)
        if batch is not None and overtaking is not None:
            yield overtaking, batch


def batch_of(write: Commit, records: Mapping[str, Record]) -> Batch | None:
    """Return the batch of a write: the one that it is signed with, or the one that was open at the time in its instant.

    A record numbers attempts. A writer numbers batches, and repeats a batch until it is acknowledged.
    """
    if write.signed is not None:
        writer, number = write.signed
        acknowledged = records[writer].acknowledged() if writer in records else ()
        return acknowledged[number - 1] if number <= len(acknowledged) else None
    at = time_of(write.instant)
    batches = (batch for record in records.values() for batch in record.batches)
    return next((b for b in batches if b.answered is not None and b.begun <= at <= b.answered), None)


def time_of(instant: str) -> datetime:
    """Return the time in an instant: wall-clock time in UTC, to the millisecond."""
    return datetime.strptime(instant + "000", "%Y%m%d%H%M%S%f").replace(tzinfo=UTC)
