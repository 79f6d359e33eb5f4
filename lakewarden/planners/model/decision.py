"""A decision about one service of one table. It always has a reason for people."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import assert_never


@dataclass(frozen=True, kw_only=True, slots=True)
class Due:
    """The service is to run now. `instant` is the pending plan to take up. None asks for a new plan."""

    reason: str
    instant: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class NotDue:
    """There is nothing to do yet. `again_at` is when time alone could change that. None means that only a change of the
    table can.
    """

    reason: str
    again_at: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Blocked:
    """The service must not run, even if it is due. `remedy` says what an operator has to do. `again_at` is when to
    decide again.
    """

    reason: str
    remedy: str | None = None
    again_at: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class WouldRun:
    """The service is due, and the mode of the table only lets it be planned. Nothing is blocked: an operator who wants
    it to run sets the mode. `instant` is as of `Due`.
    """

    reason: str
    instant: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class DoesNotApply:
    """The service has nothing to do on a table of this kind, whatever is written to it. Nothing is blocked, and an
    operator has nothing to do.
    """

    reason: str


Decision = Due | NotDue | WouldRun | Blocked | DoesNotApply


MEND_THE_TABLE = "mend what the sentence names: a file, an address or a login. The table is read again by itself"
"""The remedy of a table that cannot be observed."""


def not_observed(reason: str) -> Blocked:
    """Return the decision on each service of a table that cannot be observed."""
    return Blocked(reason=f"the table cannot be observed: {reason}", remedy=MEND_THE_TABLE)


def remedy_of(decision: Decision) -> str | None:
    """Return what an operator has to do so that the service runs. None if there is nothing to do."""
    match decision:
        case Blocked():
            return decision.remedy
        case WouldRun():
            return "set the table's mode to act"
        case Due() | NotDue() | DoesNotApply():
            return None
        case _:
            assert_never(decision)
