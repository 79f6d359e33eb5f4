"""Heartbeats: the sign of life of whoever works on an instant (`.hoodie/.heartbeat/<T>`, docs/hudi.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from lakewarden.planners.ports import FileEntry

INTERVAL = timedelta(seconds=60)
"""`hoodie.client.heartbeat.interval_in_ms` as Hudi sets it; a writer's own setting is not written anywhere."""

TOLERABLE_MISSES = 2
"""`hoodie.client.heartbeat.tolerable.misses` as Hudi sets it."""

WINDOW = INTERVAL * (TOLERABLE_MISSES + 1)
"""How long after its last beat an instant still counts as worked on: one interval more than Hudi allows."""


def guarded_until(entries: Sequence[FileEntry]) -> Mapping[str, datetime]:
    """Return, for each instant with a heartbeat file, when its guard runs out."""
    return {entry.name: entry.modified + WINDOW for entry in entries if not entry.is_folder}
