"""A listing of the timeline's folder becomes a Timeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Any, NamedTuple

from lakewarden.planners.formats.hudi.metadata import plans
from lakewarden.planners.formats.hudi.metadata.commits import Written, written
from lakewarden.planners.formats.hudi.metadata.heartbeats import guarded_until
from lakewarden.planners.formats.hudi.metadata.names import COMMITS, Action, InstantFiles, Layout
from lakewarden.planners.formats.hudi.metadata.payloads import Chunks, UnreadableError, first, present
from lakewarden.planners.formats.hudi.metadata.savepoints import signature
from lakewarden.planners.formats.hudi.metadata.tokens import Reading
from lakewarden.planners.model.instant import Instant, InstantKind, PlanSize, RunId, Service, State, Timeline
from lakewarden.planners.ports import FileEntry

# Instants are times of a wall clock, written without its zone: `yyyyMMddHHmmssSSS`, or to the second before 0.11.

_DIGITS_TO_THE_SECOND = 14
_DIGITS_TO_THE_MILLISECOND = 17
_BEFORE_ALL = datetime(1970, 1, 1)  # noqa: DTZ001 - wall clocks have no zone here
_AFTER_ALL = 9000


def wall_time(text: str) -> datetime:
    """Return what the wall clock showed, without a zone.

    Times to the second stand for their last millisecond, as Hudi 1.x reads them. Digits beyond the millisecond are
    the metadata table's own. Instants that are no times (`00000000000001`, the bootstrap) come before all. They are of
    1970, so that any zone and any difference can be applied.
    """
    if _DIGITS_TO_THE_SECOND < len(text) < _DIGITS_TO_THE_MILLISECOND:
        return _BEFORE_ALL
    milliseconds = int(text[14:17]) if len(text) > _DIGITS_TO_THE_SECOND else 999
    try:
        clock_time = datetime(  # noqa: DTZ001 - the zone is not known here
            int(text[:4]), int(text[4:6]), int(text[6:8]), int(text[8:10]), int(text[10:12]), int(text[12:14]),
            milliseconds * 1000,
        )  # fmt: skip
    except ValueError:
        return _BEFORE_ALL
    return clock_time if _BEFORE_ALL.year < clock_time.year < _AFTER_ALL else _BEFORE_ALL


def to_utc(text: str, zone: tzinfo, *, near: datetime | None = None) -> datetime:
    """Return the moment an instant names, read in `zone`, in UTC.

    In the hour that summer time gives back, the wall clock shows each time twice. Then it is the moment nearer to
    `near`, which is when a file of the instant was written. Without `near` it is the first.
    """
    first, second = _moments(text, zone)
    if near is None or first == second:
        return first
    return min(first, second, key=lambda moment: abs(moment - near))


@lru_cache(maxsize=2**14)
def _moments(text: str, zone: tzinfo) -> tuple[datetime, datetime]:
    """Return the moments at which the wall clock showed an instant's time. Usually they are the same."""
    clock_time = wall_time(text)
    if clock_time == _BEFORE_ALL:
        return _BEFORE_ALL.replace(tzinfo=UTC), _BEFORE_ALL.replace(tzinfo=UTC)
    first, second = (clock_time.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    return first, second


def shown_twice_until(moment: datetime, zone: tzinfo) -> datetime | None:
    """Return when the wall clock of `zone` no longer shows times twice, if it shows that of `moment` twice; else None.

    It is the end of the second time. Within one JVM, Hudi's `HoodieInstantTimeGenerator` waits under the table's lock
    until its clock shows a later time than the one before. After an instant in the first time it waits through all of
    the second (run, docs/hudi.md).
    """
    clock_time = moment.astimezone(zone).replace(tzinfo=None)
    first, second = (clock_time.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    back = second - first
    if back <= timedelta(0):
        return None
    before, after = first, second
    while after - before > timedelta(seconds=1):  # between them the clock is put back
        middle = before + (after - before) / 2
        before, after = (middle, after) if middle.astimezone(zone).fold == 0 else (before, middle)
    return after.replace(microsecond=0) + back


def instant_time(moment: datetime, zone: tzinfo) -> str:
    """Return how a writer in `zone` writes a moment."""
    local_time = moment.astimezone(zone)
    return f"{local_time:%Y%m%d%H%M%S}{local_time.microsecond // 1000:03d}"


class Fact(NamedTuple):
    """What was read of a plan: its size and its author."""

    plan: PlanSize | None = None
    author: RunId | None = None


class LastClean(NamedTuple):
    """What the last completed clean records (`HoodieCleanMetadata`): the newest commit that it has seen, and the oldest
    commit with files that it left.
    """

    seen: str | None = None
    retained: str | None = None
    instant: str = ""


_LARGEST_GIVEN_UP = 2**16
"""A completed instant without files holds its schema, and little else. Larger ones have changed something."""

_NOTHING = Fact()
_UNKNOWN_SIZE = PlanSize(file_groups=None, bytes=None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """An instant's files, with its purpose and with what it wrote: for completed commits, if that was asked for and
    could be read.
    """

    files: InstantFiles
    stands_for: Service | InstantKind
    fact: Fact = _NOTHING
    written: Written | None = None

    @property
    def is_commit(self) -> bool:
        """Whether it is, or will be, a commit of a write or a rewrite."""
        return self.files.action.completed_as in COMMITS


_MAY_BE_GIVEN_UP = frozenset({Service.CLUSTERING, Service.LOG_COMPACTION})

_STANDS_FOR: Mapping[Action, Service | InstantKind] = {
    Action.COMMIT: InstantKind.WRITE,
    Action.DELTACOMMIT: InstantKind.WRITE,
    Action.REPLACECOMMIT: InstantKind.WRITE,
    Action.COMPACTION: Service.COMPACTION,
    Action.LOGCOMPACTION: Service.LOG_COMPACTION,
    Action.CLUSTERING: Service.CLUSTERING,
    Action.CLEAN: Service.CLEAN,
    Action.ROLLBACK: Service.ROLLBACK,
    Action.SAVEPOINT: InstantKind.SAVEPOINT,
    Action.RESTORE: InstantKind.RESTORE,
    Action.INDEXING: Service.INDEXING,
    Action.SCHEMACOMMIT: InstantKind.OTHER,
}


def know(files: InstantFiles, reading: Reading, *, layout: Layout, merge_on_read: bool, commits: bool) -> Known:
    """Say what an instant stands for. Its plan is read if it is pending or its name is ambiguous. With `commits` also
    say what a completed one wrote.
    """
    known_instant = _purpose(files, reading, layout=layout, merge_on_read=merge_on_read)
    if _is_given_up(known_instant, reading):
        known_instant = replace(known_instant, stands_for=InstantKind.OTHER)
    if not commits or files.completed is None or not known_instant.is_commit:
        return known_instant
    wrote = reading.fact(files.completed, written)
    expired = known_instant.stands_for is InstantKind.WRITE and wrote is not None and _expires_partitions(wrote)
    return replace(known_instant, stands_for=Service.TTL if expired else known_instant.stands_for, written=wrote)


def _is_given_up(known_instant: Known, reading: Reading) -> bool:
    """Whether it is a plan of Lakewarden that was completed without a file, because writes may have found it on the
    timeline. For every reader of the timeline it is as if it had been removed.
    """
    completed = known_instant.files.completed
    if completed is None or known_instant.stands_for not in _MAY_BE_GIVEN_UP or completed.size > _LARGEST_GIVEN_UP:
        return False
    return bool(reading.fact_if_whole(completed, plans.given_up))


def _expires_partitions(wrote: Written) -> bool:
    """Whether a replacecommit is a ttl of Lakewarden. On the timeline it looks like a deletion of partitions by a
    writer.
    """
    return wrote.operation == "DELETE_PARTITION" and wrote.author is not None


def _purpose(files: InstantFiles, reading: Reading, *, layout: Layout, merge_on_read: bool) -> Known:
    """Say what an instant stands for.

    On a merge-on-read table every completed `commit` is a compaction, even if the file of its request is gone.
    Archiving deletes requests first. Meanwhile, or after it was killed, a log compaction is known by its metadata.
    """
    if files.action is Action.REPLACECOMMIT:
        return _replacecommit(files, reading, layout)
    completed = files.state is State.COMPLETED
    if files.action is Action.DELTACOMMIT and files.completed is not None and files.requested is None:
        compacts_logs = reading.fact(files.completed, _merges_log_files)
        return Known(files=files, stands_for=Service.LOG_COMPACTION if compacts_logs else InstantKind.WRITE)
    if files.action is Action.COMMIT and completed and merge_on_read:
        return Known(files=files, stands_for=Service.COMPACTION)
    stands_for = _STANDS_FOR[files.action]
    if stands_for is InstantKind.SAVEPOINT and files.completed is not None:
        author = reading.fact_if_whole(files.completed, signature)
        return Known(files=files, stands_for=stands_for, fact=Fact(author=author))
    if completed or stands_for not in _PLANS:
        return Known(files=files, stands_for=stands_for)
    return Known(files=files, stands_for=stands_for, fact=_plan_fact(files, reading, _PLANS[stands_for]) or _NOTHING)


def _replacecommit(files: InstantFiles, reading: Reading, layout: Layout) -> Known:
    """Return what a replacecommit is. In layout 1 it is a clustering if its request holds a clustering plan. In layout
    2 it is also one if its request is gone and its metadata says so.
    """
    fact = None
    if files.requested is not None and layout is Layout.V1:
        fact = reading.fact(files.requested, _maybe_clustering)
    elif files.requested is None and files.completed is not None:
        fact = reading.fact(files.completed, _completed_replacecommit)
    clustering = fact is not None and fact.plan is not None
    plan_fact = fact if clustering and files.state is not State.COMPLETED else None
    return Known(
        files=files, stands_for=Service.CLUSTERING if clustering else InstantKind.WRITE, fact=plan_fact or _NOTHING
    )


def _plan_fact(files: InstantFiles, reading: Reading, decode: Callable[[Chunks], Fact]) -> Fact | None:
    if files.requested is None:
        reading.faults.append(f"{files.action} {files.time} is in flight, but the file of its plan is gone")
        return None
    return reading.fact(files.requested, decode)


def _compaction(chunks: Chunks) -> Fact:
    return _sized(present(chunks), plans.compaction_plan)


def _clustering(chunks: Chunks) -> Fact:
    fact = _sized(present(chunks), plans.clustering_plan)
    if fact.plan is None:
        raise UnreadableError("it has no clusteringPlan")
    return fact


def _maybe_clustering(chunks: Chunks) -> Fact:
    """Decode a replacecommit's request. Some operations leave it empty: they are writes."""
    return _sized(chunks, plans.clustering_plan)


def _completed_replacecommit(chunks: Chunks) -> Fact:
    clustered = first(present(chunks), "operationType").get("operationType") == "CLUSTER"
    return Fact(plan=_UNKNOWN_SIZE) if clustered else _NOTHING


def _merges_log_files(chunks: Chunks) -> bool:
    return first(present(chunks), "operationType").get("operationType") == "LOG_COMPACT"


def _clean(chunks: Chunks) -> Fact:
    plan = plans.clean_size(present(chunks))
    return Fact(plan=PlanSize(file_groups=plan.file_groups, bytes=None), author=plan.author)


def _completed_clean(chunks: Chunks) -> LastClean:
    seen, retained = "lastCompletedCommitTimestamp", "earliestCommitToRetain"
    record = first(present(chunks), seen, retained)
    return LastClean(seen=str(record.get(seen) or "") or None, retained=str(record.get(retained) or "") or None)


def _sized(chunks: Chunks, decode: Callable[[Mapping[str, Any]], plans.HudiPlan | None]) -> Fact:
    """Return the size of a plan, and its author. The names of its files are not kept."""
    size, author = None, None
    for chunk in chunks:
        plan = decode(chunk)
        if plan is not None:
            size = plan.size if size is None else plans.added(size, plan.size)
        author = author or plans.author_of(chunk)
    return _NOTHING if size is None else Fact(plan=size, author=author)


_PLANS: Mapping[Service | InstantKind, Callable[[Chunks], Fact]] = {
    Service.COMPACTION: _compaction,
    Service.LOG_COMPACTION: _compaction,
    Service.CLUSTERING: _clustering,
    Service.CLEAN: _clean,
}


def last_clean(known_instants: Sequence[Known], reading: Reading) -> LastClean | None:
    """Return what the last completed clean records; None if there was none."""
    for known_instant in reversed(known_instants):
        if known_instant.stands_for is Service.CLEAN and known_instant.files.completed is not None:
            clean = reading.fact(known_instant.files.completed, _completed_clean) or LastClean()
            return clean._replace(instant=known_instant.files.time)
    return None


def timeline_of(known_instants: Sequence[Known], *, zone: tzinfo, beats: Mapping[str, datetime]) -> Timeline:
    """Return the timeline, with its times read in `zone`, and with the heartbeats that guard pending instants."""
    return Timeline(instants=tuple(_instant(known_instant, zone, beats) for known_instant in known_instants))


def _instant(known_instant: Known, zone: tzinfo, beats: Mapping[str, datetime]) -> Instant:
    files = known_instant.files
    last_beat = None if files.state is State.COMPLETED else beats.get(files.time)
    return Instant(
        time=files.time,
        action=files.action.value,
        stands_for=known_instant.stands_for,
        state=files.state,
        requested_at=to_utc(files.time, zone, near=_first_written(files.requested, files.inflight, files.completed)),
        completed_time=files.completed_time,
        completed_at=_completed_at(files, zone),
        author=known_instant.fact.author,
        guarded_until=guarded_until(last_beat),
        last_beat=last_beat,
        plan=known_instant.fact.plan,
    )


def _completed_at(files: InstantFiles, zone: tzinfo) -> datetime | None:
    if files.completed_time is None:
        return None
    return to_utc(files.completed_time, zone, near=_first_written(files.completed))


def _first_written(*entries: FileEntry | None) -> datetime | None:
    """Return when the first of these files that is there was written."""
    return next((entry.modified for entry in entries if entry is not None), None)
