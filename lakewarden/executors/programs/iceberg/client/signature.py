"""How our commits are signed: what a snapshot's summary says of the run that made it."""

from __future__ import annotations

from typing import Any

from lakewarden.executors.contract import Assignment
from lakewarden.planners.formats.iceberg.metadata.timeline import MORE, PART, RUN_ID, SERVICE


def signature(assignment: Assignment, *, more: bool = False) -> dict[str, str]:
    """Return what a commit of a run says of it; `more`: it does not finish what the run is for."""
    signed = {RUN_ID: str(assignment.run), SERVICE: assignment.service.value}
    return signed | {PART: MORE} if more else signed


def signed(action: Any, assignment: Assignment) -> Any:
    """Return an action of Iceberg's whose commits say of a run what `signature` says."""
    for key, value in signature(assignment).items():
        action.snapshotProperty(key, value)
    return action
