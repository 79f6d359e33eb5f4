"""The steps of a run. Each needs a permit."""

from __future__ import annotations

from enum import StrEnum


class Step(StrEnum):
    """The three steps of every run, in order."""

    PLAN = "plan"
    EXECUTE = "execute"
    COMMIT = "commit"
