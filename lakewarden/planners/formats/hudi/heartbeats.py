"""Heartbeats: the sign of life of whoever works on an instant (`.hoodie/.heartbeat/<T>`, docs/hudi.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from lakewarden.planners.model.instant import Instant
from lakewarden.planners.ports import FileEntry

INTERVAL = timedelta(seconds=60)
"""`hoodie.client.heartbeat.interval_in_ms` as Hudi sets it; a writer's own setting is not written anywhere."""

TOLERABLE_MISSES = 2
"""`hoodie.client.heartbeat.tolerable.misses` as Hudi sets it."""

WINDOW = INTERVAL * (TOLERABLE_MISSES + 1)
"""How long after its last beat an instant still counts as worked on: one interval more than Hudi allows."""


def last_beats(entries: Sequence[FileEntry]) -> Mapping[str, datetime]:
    """Return when each instant with a heartbeat file last showed a sign of life."""
    return {entry.name: entry.modified for entry in entries if not entry.is_folder}


def guarded_until(beat: datetime | None) -> datetime | None:
    """Return when the guard of an instant runs out whose last heartbeat was `beat`; None where there is none."""
    return None if beat is None else beat + WINDOW


def silent_for(write: Instant, now: datetime) -> timedelta | None:
    """Return how long ago a writer last gave a sign of life for its write; None where it never has."""
    if write.guarded_until is None:
        return None
    return now - (write.guarded_until - WINDOW)


def dead_since(
    write: Instant, *, now: datetime, dead_after: timedelta, without_heartbeat_after: timedelta | None
) -> datetime | None:
    """Return when a write that counts as dead was last known to be alive; None for one that may be alive still.

    One that shows no heartbeat is dead only by its age. A LAZY writer takes its heartbeat away when its commit fails
    (run), but one that is not LAZY never shows any.
    """
    silence = silent_for(write, now)
    if silence is not None:
        return now - silence if silence >= dead_after else None
    if without_heartbeat_after is None or now - write.requested_at < without_heartbeat_after:
        return None
    return write.requested_at
