"""Writes that did not become a commit: they were rolled back, or their heartbeat has stopped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, tzinfo

from lakewarden.planners.formats.hudi.metadata.heartbeats import INTERVAL
from lakewarden.planners.formats.hudi.metadata.memo import Reading
from lakewarden.planners.formats.hudi.metadata.names import COMMITS, Action
from lakewarden.planners.formats.hudi.metadata.payloads import Chunks, InChunks, first
from lakewarden.planners.formats.hudi.metadata.plans import RollbackTarget, instant_info
from lakewarden.planners.formats.hudi.metadata.table_properties import TableProperties
from lakewarden.planners.formats.hudi.metadata.timeline import Known
from lakewarden.planners.formats.hudi.metadata.times import to_utc
from lakewarden.planners.formats.hudi.writers.met import services_met
from lakewarden.planners.model.instant import Instant, InstantKind, Service
from lakewarden.planners.model.timeline import Timeline
from lakewarden.planners.model.view import WriteFailure

_NEVER = datetime.max.replace(tzinfo=UTC)


def write_failures(
    known: Sequence[Known],
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
    found = {write.time: _dead(write) for write in timeline.writes_in_flight() if not write.may_be_alive(now)}
    for one, instant in zip(known, timeline.instants, strict=True):
        for undone in _rolled_back(one, reading):
            if _was_a_write(undone, services, merge_on_read=properties.merge_on_read):
                found[undone.time] = WriteFailure(
                    instant=undone.time,
                    begun_at=to_utc(undone.time, zone),
                    at=instant.requested_at,
                    reason=f"rolled back by {instant.time}",
                )
    met = (
        replace(failure, met=services_met(failure, known, timeline, reading, layout=properties.layout))
        for failure in found.values()
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


def _rolled_back(one: Known, reading: Reading) -> Iterator[RollbackTarget]:
    """Yield what a rollback undoes, from its plan, or from its metadata if the plan is gone."""
    if one.files.action is not Action.ROLLBACK:
        return
    if one.files.requested is not None:
        yield from reading.fact(one.files.requested, _planned) or ()
    elif one.files.completed is not None:
        yield from reading.fact(one.files.completed, _done) or ()


@InChunks
def _planned(chunks: Chunks) -> tuple[RollbackTarget, ...]:
    """Decode a `HoodieRollbackPlan`."""
    undone = first(chunks, "instantToRollback").get("instantToRollback")
    return () if undone is None else (instant_info(undone),)


@InChunks
def _done(chunks: Chunks) -> tuple[RollbackTarget, ...]:
    """Decode a `HoodieRollbackMetadata`."""
    return tuple(instant_info(undone) for chunk in chunks for undone in chunk.get("instantsRollback") or ())
