"""The entries that Lakewarden adds to a snapshot's summary. They name the run."""

from __future__ import annotations

from typing import Any

from lakewarden.executors.contract import Assignment
from lakewarden.planners.formats.iceberg.metadata.timeline import MORE, PART, RUN_ID, SERVICE


def signature(assignment: Assignment, *, more: bool = False) -> dict[str, str]:
    """Return the entries for a commit of a run. `more`: the run commits more after it."""
    signed = {RUN_ID: str(assignment.run), SERVICE: assignment.service.value}
    return signed | {PART: MORE} if more else signed


def signed(action: Any, assignment: Assignment) -> Any:
    """Add the entries of `signature` to the commits of an Iceberg action, and return the action."""
    for key, value in signature(assignment).items():
        action.snapshotProperty(key, value)
    return action
