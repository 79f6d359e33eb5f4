"""What a table's writers are doing, as far as commits tell: a Paimon write is not visible before it is committed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median_low
from typing import Any, NamedTuple

from lakewarden.planners.decoding.damage import DamagedError
from lakewarden.planners.decoding.json_stream import count, from_json, moment
from lakewarden.planners.formats.paimon.metadata.snapshots import CommitKind, Snapshot
from lakewarden.planners.hooks import At, CommitHook, Hint, HookReader, MalformedHookError, json_object
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table
from lakewarden.planners.model.view import WriterActivity
from lakewarden.planners.ports import FLINK, SPARK, WriterEngine, WriterOption
from lakewarden.planners.storage.locations import spelled_location

_COMMITS_TO_TELL_A_CADENCE = 20


def writer_activity(snapshots: Sequence[Snapshot]) -> WriterActivity:
    """Return the newest write of snapshots, which come the oldest first, and the usual time between two. Pure."""
    times = [snapshot.at for snapshot in snapshots if snapshot.is_write][-_COMMITS_TO_TELL_A_CADENCE:]
    return WriterActivity(last_commit_at=max(times, default=None), usual_interval=_usual(times))


def _usual(times: Sequence[datetime]) -> timedelta | None:
    gaps = [max(later - earlier, timedelta(0)) for earlier, later in pairwise(times)]
    return median_low(gaps) if gaps else None


# The report of a Flink job that a partition is done (`partition.mark-done-action=http-report`).
#
# The body is `{"params": ..., "table": "db.t", "path": "<location>", "partition": "dt=2026-01-01/"}`. Only `path` is
# read: a hook is a hint. Any answer but a success makes the job restart, and so does the lack of one
# (`HttpReportMarkDoneAction` of Paimon 1.3.1: the answer is a JSON object with the `result` SUCCESS).


def hints_of(body: bytes, *, whole: bool = True) -> tuple[Hint, ...]:
    """Return the table that the report is about. Raises MalformedHookError."""
    path = json_object(body, whole=whole).get("path")
    if not isinstance(path, str):
        raise MalformedHookError("the body has no path, as the report of a partition that is done has")
    try:
        return (At(location=spelled_location(path)),)
    except PermanentError as wrong:
        raise MalformedHookError(str(wrong)) from wrong


_READER = HookReader(sender="paimon", read=lambda body, whole, _catalog: hints_of(body, whole=whole))

HOOK = CommitHook(
    senders=("paimon",),
    about="Take the report of a Flink job that a partition is done (`partition.mark-done-action=http-report`). The "
    "answer is a success in every case, because any other answer makes the job restart.",
    reader_of=lambda _path: _READER,
    always={"result": "SUCCESS"},
)


# The options by which the writers of a Paimon table leave its compaction to Lakewarden.
#
# Source: `org.apache.paimon.CoreOptions` of Paimon 1.3.1. They are options of the table. A running job keeps the
# options with which it began.

ENGINES = (FLINK, SPARK)


def writer_options(table: Table, *, engine: WriterEngine, hook_url: str) -> tuple[WriterOption, ...]:
    """Return the options. The report of partitions that are done is Flink's alone."""
    return (_switch(table), *(_report(hook_url) if engine == FLINK else ()))


def _report(hook_url: str) -> Iterator[WriterOption]:
    why = "a partition that is done is announced; it needs partition.idle-time-to-done of the job"
    yield WriterOption(key="partition.mark-done-action", value="success-file,http-report", why=why)
    yield WriterOption(key="partition.mark-done-action.http.url", value=hook_url, why=why)


def _switch(table: Table) -> WriterOption:
    compacts = Service.COMPACTION in table.policies
    why = (
        "Lakewarden compacts the table, and its writers do not; they expire no snapshots, and create and expire no tags"
        if compacts
        else "the writers compact the table and expire its snapshots themselves, as by default"
    )
    return WriterOption(key="write-only", value="true" if compacts else "false", why=why)


# Who commits to a table.
#
# A streaming job has one commit user for its life, and counts its commits. When it is restored it looks for its newest
# commit, and commits again what it does not find (`FileStoreCommitImpl.filterCommitted` of Paimon 1.3.1).

_WRITES = frozenset({CommitKind.APPEND, CommitKind.OVERWRITE})


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitUser:
    """A commit user and its newest snapshot. `compacts`: it writes rows and compacts."""

    name: str
    newest: Snapshot
    compacts: bool

    @property
    def is_streaming(self) -> bool:
        """Whether it is a streaming job's."""
        return self.newest.is_streaming

    @property
    def writes(self) -> bool:
        """Whether it writes rows. A job that only compacts does not."""
        return self.compacts or self.newest.kind in _WRITES


def commit_users(snapshots: Iterable[Snapshot]) -> tuple[CommitUser, ...]:
    """Return the users of snapshots, which come the oldest first: the one with the newest commit first. Pure."""
    by_user: dict[str, list[Snapshot]] = {}
    for snapshot in snapshots:
        by_user.setdefault(snapshot.user, []).append(snapshot)
    users = [_user(name, of_it) for name, of_it in by_user.items()]
    return tuple(sorted(users, key=lambda user: user.newest.id, reverse=True))


def _user(name: str, snapshots: list[Snapshot]) -> CommitUser:
    kinds = {snapshot.kind for snapshot in snapshots}
    return CommitUser(
        name=name,
        newest=snapshots[-1],
        compacts=CommitKind.COMPACT in kinds and bool(kinds & _WRITES),
    )


# The file that says of a partition that it is done, `_SUCCESS` in its folder.
#
# Source: `org.apache.paimon.partition.file.SuccessFile` and `SuccessFileMarkDoneAction` of Paimon 1.3.1: a JSON object
# with two times in milliseconds. Other fields are ignored.

NAME = "_SUCCESS"
LARGEST = 64 * 2**10

_CREATED, _MODIFIED, _SNAPSHOT = "creationTime", "modificationTime", "lakewardenSnapshot"


class Done(NamedTuple):
    """What a marker says: the partition was done at a moment. `snapshot` is the newest that its author knew; None if
    the author did not say so.
    """

    at: datetime
    snapshot: int | None = None


def parse_marker(content: bytes) -> Done | None:
    """Return what a marker says. None for a file that is no marker of Paimon's, as an empty one."""
    raw = _object(content)
    try:
        at = moment(raw[_MODIFIED], _MODIFIED)
        snapshot = raw.get(_SNAPSHOT)
        return Done(at, None if snapshot is None else count(snapshot, _SNAPSHOT))
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def marker(at: datetime, *, snapshot: int, before: bytes | None) -> bytes:
    """Return a marker. The time of its creation is that of the marker `before`, if that is one."""
    now = round(at.timestamp() * 1000)
    raw = {} if before is None else _object(before)
    try:
        created = count(raw[_CREATED], _CREATED)
    except (KeyError, TypeError, ValueError):
        created = now
    return json.dumps({_CREATED: created, _MODIFIED: now, _SNAPSHOT: snapshot}, separators=(",", ":")).encode()


def _object(content: bytes) -> dict[str, Any]:
    try:
        raw = from_json(content)
    except DamagedError:
        return {}
    return raw if isinstance(raw, dict) else {}
