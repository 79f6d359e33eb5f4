"""Runs as REST tells them, with everything filled in, so that a test names only what it is about."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from lakewarden.service.http.schemas import RunBody

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)

_TOLD: dict[str, Any] = {
    "id": "r1",
    "table": "orders",
    "service": "compaction",
    "state": "SUCCEEDED",
    "instant": None,
    "reason": "",
    "requested_by": "policy",
    "step": None,
    "epoch": 1,
    "created_at": NOON,
    "started_at": NOON,
    "ended_at": NOON,
    "run_seconds": None,
    "waits_for": None,
    "outcome": None,
    "figures": {},
}


def a_run_told(**news: Any) -> RunBody:
    """Return a run that succeeded at noon, but for the `news`."""
    return RunBody(**{**_TOLD, **news})
