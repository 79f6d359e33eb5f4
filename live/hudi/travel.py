"""Time travel to every instant that the clean has left readable, by hudi-rs, which is not the code under test."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fastavro
from hudi import HudiTable

from lakewarden.executors.demo.record import Batch, Ending, Record, rows_after
from lakewarden.service.demo.hudi_reader import read_snapshot
from lakewarden.service.demo.reader import count_wrong_rows
from live.journey import Journey

_OURS = frozenset({"COMPACT", "LOG_COMPACT", "CLUSTER"})
_TIMELINE = Path(".hoodie") / "timeline"
_SINK = "_hudi_streaming_sink_checkpoint"
_COMPLETED = re.compile(r"(?P<requested>\d+)_(?P<completed>\d+)\.(?P<action>[a-z]+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Commit:
    """One completed instant of the active timeline, with the time of its completion. `operation` is Hudi's word for
    what it did, and `micro_batch` the number that a streaming sink left in it.
    """

    instant: str
    completed: str
    operation: str
    micro_batch: int | None = None

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
        sink = json.loads((metadata.get("extraMetadata") or {}).get(_SINK, "{}"))
        found.append(
            Commit(
                instant=instant.timestamp,
                completed=completions.get(instant.timestamp, ""),
                operation=str(metadata.get("operationType")),
                micro_batch=max((int(number) for number in sink.values()), default=None),
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


def travel(table: Path, record: Record) -> list[Journey]:
    """Read the table at every retained instant and compare it with the writer's record as of that instant."""
    earliest = earliest_retained(table)
    all_commits = commits(table)
    first_write = next((commit.instant for commit in all_commits if commit.writes), "")
    retained = [commit for commit in all_commits if commit.instant >= max(earliest, first_write)]
    return [_journey(table, commit, all_commits, record) for commit in retained]


def _completed(table: Path) -> list[re.Match[str]]:
    names = (path.name for path in (table / _TIMELINE).iterdir())
    return [found for name in names if (found := _COMPLETED.fullmatch(name))]


def _journey(table: Path, commit: Commit, all_commits: Sequence[Commit], record: Record) -> Journey:
    writes = (other for other in all_commits if other.writes and other.instant <= commit.instant)
    last_write = max(writes, key=lambda write: write.instant)
    batch = batch_of(last_write.instant, record)
    if batch is None:
        return Journey(instant=commit.instant, operation=commit.operation, failure="no batch was open at its write")
    done = [b for b in record.batches if b.ending is Ending.ACKNOWLEDGED and b.number < batch.number]
    try:
        found = read_snapshot(table, as_of=commit.instant)
    except Exception as error:  # noqa: BLE001 - whatever a foreign reader raises is a journey that failed
        return Journey(instant=commit.instant, operation=commit.operation, failure=f"{type(error).__name__}: {error}")
    expected = rows_after([*done, batch])
    wrong = count_wrong_rows(found.rows, expected)
    differing = {key for key in found.rows.keys() | expected.keys() if found.rows.get(key) != expected.get(key)}
    only_its_own = differing <= {row.key for row in batch.rows}
    overtaken = overtaking(last_write, all_commits, as_of=commit.instant) if wrong and only_its_own else ""
    return Journey(instant=commit.instant, operation=commit.operation, wrong=wrong, overtaken=overtaken)


def overtaking(write: Commit, all_commits: Sequence[Commit], *, as_of: str) -> str:
    """Return the compaction that was planned while the write was in flight and that `as_of` does not show; else an
    empty string.
    """
    compactions = (commit.instant for commit in all_commits if commit.operation == "COMPACT")
    return next((c for c in compactions if write.instant < c < write.completed and c > as_of), "")


def batch_of(instant: str, record: Record) -> Batch | None:
    """Return the batch that was open when the instant was stamped. Instants are wall-clock times in UTC."""
    at = datetime.strptime(instant + "000", "%Y%m%d%H%M%S%f").replace(tzinfo=UTC)
    return next((b for b in record.batches if b.answered is not None and b.begun <= at <= b.answered), None)
