"""Heartbeats: the sign of life of the client that works on an instant (`.hoodie/.heartbeat/<T>`, docs/hudi.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from lakewarden.planners.model.instant import Instant, InstantKind, Timeline
from lakewarden.planners.model.view import TableView
from lakewarden.planners.ports import FileEntry

INTERVAL = timedelta(seconds=60)
"""`hoodie.client.heartbeat.interval_in_ms` as Hudi sets it. A writer's own setting is recorded nowhere."""

WINDOW = INTERVAL * 3
"""How long after its last beat an instant still counts as worked on: one interval more than Hudi allows, which
tolerates two misses (`hoodie.client.heartbeat.tolerable.misses`).
"""

FIRST_BEAT_WITHIN = timedelta(seconds=30)
"""The longest time between a write's first file and its first heartbeat."""

GONE_FOR = timedelta(seconds=15)
"""If the heartbeat of a write has been missing for so long, the write is not waited for any more. If a commit has just
been completed, the second of two observations so far apart shows it."""


def last_beats(entries: Sequence[FileEntry]) -> Mapping[str, datetime]:
    """Return when each instant with a heartbeat file last showed a sign of life."""
    return {entry.name: entry.modified for entry in entries if not entry.is_folder}


def guarded_until(beat: datetime | None) -> datetime | None:
    """Return when the guard of the last heartbeat `beat` expires; None if there is none."""
    return None if beat is None else beat + WINDOW


def guarded(timeline: Timeline, seen: Timeline, *, lazy: bool, now: datetime) -> Timeline:
    """Return a timeline with writes in flight that are guarded by all that is known of their heartbeats.

    `seen` is the timeline as it was seen before. A client removes its heartbeat when its commit has failed or is
    completed (bytecode, 1.0 and 1.2). So if the heartbeat of a write in flight is gone, the write has failed. If it is
    alive all the same, it beats again within an interval. With `lazy` the table's owner has declared all its writers
    LAZY. Then a write that was never seen with a heartbeat has failed, too. To undo such a write, more time must have
    passed than to stop waiting for it: see `dead_since`.
    """
    beaten = {write.time: write for write in seen.writes_in_flight() if write.last_beat is not None}
    instants = (_guarded(instant, beaten.get(instant.time), lazy=lazy, now=now) for instant in timeline.instants)
    return replace(timeline, instants=tuple(instants))


def _guarded(instant: Instant, before: Instant | None, *, lazy: bool, now: datetime) -> Instant:
    if not _lacks_a_heartbeat(instant):
        return instant
    if before is not None:
        return _stopped(instant, before.last_beat, before.stopped_at or now)
    first_beat_by = instant.requested_at + FIRST_BEAT_WITHIN
    return replace(instant, guarded_until=first_beat_by + GONE_FOR) if lazy else instant


def _lacks_a_heartbeat(instant: Instant) -> bool:
    return instant.pending and instant.stands_for is InstantKind.WRITE and instant.last_beat is None


def _stopped(write: Instant, last_beat: datetime | None, at: datetime | None) -> Instant:
    until = guarded_until(last_beat) if at is None else at + GONE_FOR
    return replace(write, last_beat=last_beat, stopped_at=at, guarded_until=until)


def without_a_beat_seen(view: TableView, seen: Mapping[str, datetime]) -> tuple[str, ...]:
    """Return the writes in flight that show no heartbeat although one was `seen` elsewhere."""
    return tuple(
        instant.time for instant in view.timeline.instants if instant.time in seen and _lacks_a_heartbeat(instant)
    )


def with_beats_seen(view: TableView, seen: Mapping[str, datetime], *, gone: Mapping[str, datetime]) -> TableView:
    """Return a view with the heartbeats that were `seen` elsewhere and are gone now. They guard their writes. `gone` is
    when each was first known to be gone.
    """
    if not seen:
        return view
    instants = (
        _stopped(instant, seen[instant.time], gone.get(instant.time))
        if instant.time in seen and _lacks_a_heartbeat(instant)
        else instant
        for instant in view.timeline.instants
    )
    timeline = replace(view.timeline, instants=tuple(instants))
    return replace(view, timeline=timeline, writers=replace(view.writers, in_flight=timeline.writes_in_flight()))


def may_lose(write: Instant, now: datetime) -> bool:
    """Whether a write may check, before it commits, what others have committed meanwhile, and fail because of them.

    Only clients in multi-writer mode do. That mode makes them LAZY, whatever their options say (bytecode, 0.15 to 1.2),
    so they show a heartbeat. A write without one has failed, or its writer is EAGER and checks nothing.
    """
    return write.guarded_until is not None or may_show_a_first_beat(write, now)


def may_show_a_first_beat(write: Instant, now: datetime) -> bool:
    """Whether a write without a heartbeat is so young that its first one may still come."""
    return write.guarded_until is None and now - write.requested_at <= FIRST_BEAT_WITHIN


def silent_for(write: Instant, now: datetime) -> timedelta | None:
    """Return how long ago a write last showed a sign of life; None if nothing says that it shows any."""
    if write.guarded_until is None:
        return None
    return now - (write.requested_at if write.last_beat is None else write.last_beat)


def dead_since(
    write: Instant, *, now: datetime, dead_after: timedelta, without_heartbeat_after: timedelta | None
) -> datetime | None:
    """Return when a write that counts as dead was last known to be alive; None for one that may still be alive.

    A write that was never seen with a heartbeat is dead only by its age, unless its writer is declared LAZY. A writer
    that is not LAZY never shows a heartbeat.
    """
    silence = silent_for(write, now)
    if silence is not None:
        return now - silence if silence >= dead_after else None
    if without_heartbeat_after is None or now - write.requested_at < without_heartbeat_after:
        return None
    return write.requested_at
