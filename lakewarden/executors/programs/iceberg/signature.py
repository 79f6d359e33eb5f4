"""How our commits are signed: what a snapshot's summary says of the run that made it."""

from __future__ import annotations

from lakewarden.executors.contract import Assignment

RUN_KEY = "lakewarden.run-id"
"""The run."""
SERVICE_KEY = "lakewarden.service"
"""Its service."""
PART_KEY = "lakewarden.part"
"""Present where the run was not finished with this commit."""
MORE = "more"


def signature(assignment: Assignment, *, more: bool = False) -> dict[str, str]:
    """Return what a commit of a run says of it; `more`: it does not finish the run."""
    signed = {RUN_KEY: assignment.run, SERVICE_KEY: assignment.service.value}
    return signed | {PART_KEY: MORE} if more else signed
