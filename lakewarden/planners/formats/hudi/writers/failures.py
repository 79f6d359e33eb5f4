"""Writes that did not become a commit: they were rolled back, or their heartbeat has stopped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo

from lakewarden.planners.decoding.json_stream import counted
from lakewarden.planners.formats.hudi.metadata.commits import partitions_to_come
from lakewarden.planners.formats.hudi.metadata.heartbeats import INTERVAL, may_lose
from lakewarden.planners.formats.hudi.metadata.names import COMMITS, Action, Layout
from lakewarden.planners.formats.hudi.metadata.payloads import Chunks, first
from lakewarden.planners.formats.hudi.metadata.plans import RollbackTarget, clustering_plan, instant_info, merged
from lakewarden.planners.formats.hudi.metadata.properties import TableProperties
from lakewarden.planners.formats.hudi.metadata.timeline import Known, to_utc
from lakewarden.planners.formats.hudi.metadata.tokens import Reading
from lakewarden.planners.model.instant import Instant, InstantKind, Service, Step, Timeline
from lakewarden.planners.model.view import TableView, WriteFailure

# The services that a failed write met: they were pending, or completed, during the write, and may have failed it.


def services_met(
    failure: WriteFailure, known_instants: Sequence[Known], timeline: Timeline, reading: Reading, *, layout: Layout
) -> frozenset[str]:
    """Return the instants of services that a write can have failed by.

    A pending clustering rejects the write. The write loses to a clustering, a deletion of partitions or a log
    compaction that is completed during the write. It loses to a compaction that was requested after it and completed
    before it, or, in layout 1, is merely pending (docs/hudi.md). Services that are known to be in other partitions than
    the write do it no harm.
    """
    files = {known_instant.files.time: known_instant for known_instant in known_instants}
    written_to = _partitions_of_write(files.get(failure.instant), reading)
    return frozenset(
        instant.time
        for known_instant, instant in zip(known_instants, timeline.instants, strict=True)
        if _in_its_way(instant, _ended(known_instant, instant), failure, layout)
        and _share(written_to, known_instant, reading)
    )


def _in_its_way(service: Instant, ended: datetime | None, failure: WriteFailure, layout: Layout) -> bool:
    begun = failure.at if failure.begun_at is None else failure.begun_at
    completed = ended is not None and begun <= ended <= failure.at
    there = service.requested_at <= failure.at and (ended is None or begun <= ended)
    match service.stands_for:
        case Service.CLUSTERING | Service.TTL:
            return there
        case Service.LOG_COMPACTION:
            return completed
        case Service.COMPACTION:
            return service.time > failure.instant and (there if layout is Layout.V1 else completed)
        case _:
            return False


def _ended(known_instant: Known, instant: Instant) -> datetime | None:
    """Return when an instant was completed. Layout 1 does not say it; there it is when its last file was written."""
    if instant.pending:
        return None
    return instant.completed_at or (
        None if known_instant.files.completed is None else known_instant.files.completed.modified
    )


def _share(written_to: frozenset[str] | None, known_instant: Known, reading: Reading) -> bool:
    """Whether a write and a service may have met in a partition. They may if one of them names no partitions."""
    if written_to is None:
        return True
    theirs = (
        frozenset(known_instant.written.partitions)
        if known_instant.written is not None
        else _rewritten_by_plan(known_instant, reading)
    )
    return theirs is None or not written_to.isdisjoint(theirs)


def _partitions_of_write(known_instant: Known | None, reading: Reading) -> frozenset[str] | None:
    if known_instant is None or known_instant.files.inflight is None:
        return None
    return reading.fact_if_whole(known_instant.files.inflight, partitions_to_come)


def _rewritten_by_plan(known_instant: Known, reading: Reading) -> frozenset[str] | None:
    if known_instant.stands_for is not Service.CLUSTERING or known_instant.files.requested is None:
        return None
    return reading.fact_if_whole(known_instant.files.requested, _clustered)


def _clustered(chunks: Chunks) -> frozenset[str] | None:
    plan = merged(chunks, clustering_plan)
    return None if plan is None else frozenset(file.partition for file in plan.files)


_NEVER = datetime.max.replace(tzinfo=UTC)


def write_failures(
    known_instants: Sequence[Known],
    timeline: Timeline,
    reading: Reading,
    properties: TableProperties,
    *,
    zone: tzinfo,
    now: datetime,
) -> tuple[WriteFailure, ...]:
    """Return the writes that failed, as far as the active timeline shows, in the order in which they can have failed.

    A compaction or clustering that is rolled back is executed again under its own instant, or given up. No write is
    lost. In layout 1 a clustering that was given up looks like a write: both are replacecommits.
    """
    ours = [i for i in timeline.instants if isinstance(i.stands_for, Service) or i.stands_for is InstantKind.OTHER]
    services = {i.time for i in ours if i.action != Action.ROLLBACK}
    failures = {write.time: _dead(write) for write in timeline.writes_in_flight() if not write.may_be_alive(now)}
    for known_instant, instant in zip(known_instants, timeline.instants, strict=True):
        for undone in _rolled_back(known_instant, reading):
            if _was_a_write(undone, services, merge_on_read=properties.merge_on_read):
                failures[undone.time] = WriteFailure(
                    instant=undone.time,
                    begun_at=to_utc(undone.time, zone),
                    at=instant.requested_at,
                    reason=f"rolled back by {instant.time}",
                )
    met = (
        replace(failure, met=services_met(failure, known_instants, timeline, reading, layout=properties.layout))
        for failure in failures.values()
    )
    return tuple(sorted(met, key=lambda failure: failure.at))


def _dead(write: Instant) -> WriteFailure:
    """Return the failure of a dead write in flight. It failed before its next heartbeat was due."""
    next_beat = None if write.last_beat is None else write.last_beat + INTERVAL
    at = min(moment for moment in (write.stopped_at, next_beat, write.guarded_until, _NEVER) if moment is not None)
    reason = "its heartbeat expired" if write.stopped_at is None else "its writer removed its heartbeat"
    return WriteFailure(instant=write.time, begun_at=write.requested_at, at=at, reason=reason)


def _was_a_write(undone: RollbackTarget, services: set[str], *, merge_on_read: bool) -> bool:
    """Whether a rollback undid a write. On a merge-on-read table every commit is a compaction."""
    is_commit = undone.action in COMMITS and not (merge_on_read and undone.action == Action.COMMIT)
    return is_commit and undone.time not in services


def _rolled_back(known_instant: Known, reading: Reading) -> Iterator[RollbackTarget]:
    """Yield what a rollback undoes, from its plan, or from its metadata if the plan is gone."""
    if known_instant.files.action is not Action.ROLLBACK:
        return
    if known_instant.files.requested is not None:
        yield from reading.fact(known_instant.files.requested, _planned) or ()
    elif known_instant.files.completed is not None:
        yield from reading.fact(known_instant.files.completed, _done) or ()


def _planned(chunks: Chunks) -> tuple[RollbackTarget, ...]:
    """Decode a `HoodieRollbackPlan`."""
    undone = first(chunks, "instantToRollback").get("instantToRollback")
    return () if undone is None else (instant_info(undone),)


def _done(chunks: Chunks) -> tuple[RollbackTarget, ...]:
    """Decode a `HoodieRollbackMetadata`."""
    return tuple(instant_info(undone) for chunk in chunks for undone in chunk.get("instantsRollback") or ())


# Which writes would fail because of a step of Lakewarden (docs/hudi.md).

_HURT_ONLY_BY_COMMITS = 8

_INTERVALS = 10
_AT_LEAST = timedelta(minutes=1)


def endangered_writes(view: TableView, service: Service, *, step: Step, instant: str | None) -> tuple[Instant, ...]:
    """Return the writes in flight that would fail if `service` took `step` on `instant` now.

    A writer that prefers to lose (`PreferWriterConflictResolutionStrategy`) loses to every compaction with a later
    instant that is completed before the write. So a compaction is committed when the writes that began before its plan
    have ended. It is planned between a writer's writes. If several are in flight there is no such moment, and from
    version 8 on none is needed. Below version 9 a pending compaction is enough to fail an earlier write: there the
    program plans between two looks under the table's lock, and around what writes in flight touch.

    A log compaction is completed as a `deltacommit`. A write loses to it that appends to one of its file groups, even
    one that began after its plan: see `awaited`, and its program's look under the lock. These two do not endanger a
    write that cannot lose (`may_lose`), as long as completion times put its log files into their slices. Below version
    8 a compaction would hide its rows.

    A clustering and a deletion of partitions endanger no write here. Their programs look under the table's lock which
    partitions each write in flight touches, and avoid them (`activity.py`).
    """
    writes = view.writers.in_flight
    now = view.observed_at
    at_stake = writes if pending_plans_hurt(view) else tuple(write for write in writes if may_lose(write, now))
    match service, step:
        case Service.COMPACTION, _ if view.writers.non_blocking:
            return ()
        case Service.COMPACTION, Step.PLAN:
            return at_stake if pending_plans_hurt(view) or len(at_stake) == 1 else ()
        case Service.COMPACTION, Step.COMMIT:
            return _begun_before(at_stake, instant)
        case Service.LOG_COMPACTION, Step.COMMIT:
            return _that_look_back(view, at_stake, instant)
        case _:
            return ()


def awaited(view: TableView, service: Service, *, step: Step, instant: str | None) -> str | None:
    """Return what a step should wait for although no write in flight would fail by it now.

    A compaction is not executed before it could be committed, because its work would have to be done again. No write
    begins before an existing plan. So if there is no write to wait for at its execution, there is none at its commit.

    A log compaction waits until one write that was requested after its plan is completed. A later write compares
    itself with nothing older than that one. So it never meets the log compaction, whether it is in flight then or
    begins at the moment of the commit. If the table has no writers, there is no write to wait for.
    """
    if (service, step) == (Service.COMPACTION, Step.EXECUTE):
        writes = endangered_writes(view, service, step=Step.COMMIT, instant=instant)
        alive = ", ".join(write.time for write in writes if write.may_be_alive(view.observed_at))
        return f"write {alive} began before the plan and would fail by its commit" if alive else None
    if (service, step) != (Service.LOG_COMPACTION, Step.COMMIT) or instant is None or _first_after(view, instant):
        return None
    return f"no write begun after plan {instant} was completed yet" if _is_written_to(view) else None


def _that_look_back(view: TableView, writes: tuple[Instant, ...], instant: str | None) -> tuple[Instant, ...]:
    """Return the writes that compare themselves with what was completed since `instant` was planned. They began before
    the first write requested after it was completed. Layout 1 does not say when that was.
    """
    first = None if instant is None else _first_after(view, instant)
    if first is None or first.completed_at is None:
        return writes
    return tuple(write for write in writes if write.requested_at <= first.completed_at)


def _first_after(view: TableView, instant: str) -> Instant | None:
    """Return the write requested after `instant` that was completed first."""
    writes = [
        i for i in view.timeline.instants if i.stands_for is InstantKind.WRITE and not i.pending and i.time > instant
    ]
    return min(writes, key=lambda write: write.completed_time or write.time, default=None)


def _is_written_to(view: TableView) -> bool:
    """Whether the table's cadence lets a write be expected: the last one is at most some intervals old."""
    usual, last = view.writers.usual_interval, view.writers.last_commit_at
    if usual is None or last is None:
        return False
    return view.observed_at - last < max(_INTERVALS * usual, _AT_LEAST)


def pending_plans_hurt(view: TableView) -> bool:
    """Whether the table's version is so low that a pending compaction alone makes an earlier write fail."""
    version = counted(view.version)
    return version is not None and version < _HURT_ONLY_BY_COMMITS


def _begun_before(writes: tuple[Instant, ...], instant: str | None) -> tuple[Instant, ...]:
    return tuple(write for write in writes if instant is None or write.time < instant)
