"""Heartbeats: the sign of life of whoever works on an instant (`.hoodie/.heartbeat/<T>`, docs/hudi.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from lakewarden.planners.model.instant import Deed, Instant
from lakewarden.planners.model.timeline import Timeline
from lakewarden.planners.model.view import TableView
from lakewarden.planners.ports import FileEntry

INTERVAL = timedelta(seconds=60)
"""`hoodie.client.heartbeat.interval_in_ms` as Hudi sets it; a writer's own setting is not written anywhere."""

TOLERABLE_MISSES = 2
"""`hoodie.client.heartbeat.tolerable.misses` as Hudi sets it."""

WINDOW = INTERVAL * (TOLERABLE_MISSES + 1)
"""How long after its last beat an instant still counts as worked on: one interval more than Hudi allows."""

FIRST_BEAT_WITHIN = timedelta(seconds=30)
"""A write's first file and its first heartbeat come one after the other; so long may lie between."""

GONE_FOR = timedelta(seconds=15)
"""A write whose heartbeat is missing for so long, where it should be there, is not waited for any more. Between two
looks so far apart a commit that was only just completed has come to light."""


def last_beats(entries: Sequence[FileEntry]) -> Mapping[str, datetime]:
    """Return when each instant with a heartbeat file last showed a sign of life."""
    return {entry.name: entry.modified for entry in entries if not entry.is_folder}


def guarded_until(beat: datetime | None) -> datetime | None:
    """Return when the guard of an instant runs out whose last heartbeat was `beat`; None where there is none."""
    return None if beat is None else beat + WINDOW


def guarded(timeline: Timeline, seen: Timeline, *, lazy: bool, now: datetime) -> Timeline:
    """Return a timeline whose writes in flight are guarded by all that is known of their heartbeats.

    `seen` is the timeline as it was seen before. A client takes its heartbeat away when its commit has failed or is
    completed (bytecode, 1.0 and 1.2). So a write that is in flight without the one that it had has failed, and
    one that is alive all the same beats again within an interval. `lazy` tells that the table's owner has declared all
    its writers LAZY: then a write of which no heartbeat was seen has failed, too. To undo such a write takes longer
    than not to wait for it: see `dead_since`.
    """
    beaten = {write.time: write for write in seen.writes_in_flight() if write.last_beat is not None}
    found = (_guarded(one, beaten.get(one.time), lazy=lazy, now=now) for one in timeline.instants)
    return replace(timeline, instants=tuple(found))


def _guarded(instant: Instant, before: Instant | None, *, lazy: bool, now: datetime) -> Instant:
    if not _lacks_a_heartbeat(instant):
        return instant
    if before is not None:
        return _stopped(instant, before.last_beat, before.stopped_at or now)
    first_beat_by = instant.requested_at + FIRST_BEAT_WITHIN
    return replace(instant, guarded_until=first_beat_by + GONE_FOR) if lazy else instant


def _lacks_a_heartbeat(instant: Instant) -> bool:
    return instant.pending and instant.stands_for is Deed.WRITE and instant.last_beat is None


def _stopped(write: Instant, last_beat: datetime | None, at: datetime | None) -> Instant:
    until = guarded_until(last_beat) if at is None else at + GONE_FOR
    return replace(write, last_beat=last_beat, stopped_at=at, guarded_until=until)


def without_a_beat_seen(view: TableView, seen: Mapping[str, datetime]) -> tuple[str, ...]:
    """Return the writes in flight that show no heartbeat, of those of which somebody else has `seen` one."""
    return tuple(one.time for one in view.timeline.instants if one.time in seen and _lacks_a_heartbeat(one))


def with_beats_seen(view: TableView, seen: Mapping[str, datetime], *, gone: Mapping[str, datetime]) -> TableView:
    """Return a view in which writes whose heartbeat is gone are guarded by what somebody else has `seen` of it, and by
    when it was first known to be `gone`.
    """
    if not seen:
        return view
    found = (
        _stopped(one, seen[one.time], gone.get(one.time)) if one.time in seen and _lacks_a_heartbeat(one) else one
        for one in view.timeline.instants
    )
    timeline = replace(view.timeline, instants=tuple(found))
    return replace(view, timeline=timeline, writers=replace(view.writers, in_flight=timeline.writes_in_flight()))


def may_lose(write: Instant, now: datetime) -> bool:
    """Whether a write may check, before it commits, what others have committed meanwhile, and lose to them.

    Only clients in multi-writer mode do, and that mode makes them LAZY whatever they were told (bytecode, 0.15 to 1.2):
    they show a heartbeat. A write that shows none has failed, or its writer is EAGER and checks nothing.
    """
    return write.guarded_until is not None or may_show_a_first_beat(write, now)


def may_show_a_first_beat(write: Instant, now: datetime) -> bool:
    """Whether a write without a heartbeat is so young that its first one may be about to come."""
    return write.guarded_until is None and now - write.requested_at <= FIRST_BEAT_WITHIN


def silent_for(write: Instant, now: datetime) -> timedelta | None:
    """Return how long ago a write last showed a sign of life; None where nothing says that it shows any."""
    if write.guarded_until is None:
        return None
    return now - (write.requested_at if write.last_beat is None else write.last_beat)


def dead_since(
    write: Instant, *, now: datetime, dead_after: timedelta, without_heartbeat_after: timedelta | None
) -> datetime | None:
    """Return when a write that counts as dead was last known to be alive; None for one that may be alive still.

    One of which no heartbeat was ever seen is dead only by its age, where nobody has declared its writer LAZY: a writer
    that is not never shows any.
    """
    silence = silent_for(write, now)
    if silence is not None:
        return now - silence if silence >= dead_after else None
    if without_heartbeat_after is None or now - write.requested_at < without_heartbeat_after:
        return None
    return write.requested_at
