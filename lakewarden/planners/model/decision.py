"""A decision about one service of one table. It always has a reason for people, and a code for programs.

The sentence names tables, instants and numbers, and may be worded better some day. The code stays. Each code is an
entry of the table in `service/model/reasons.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, assert_never

OTHER = "other"
"""The code of what has no code of its own."""

NOTHING_TO_DO = "nothing_to_do"
"""The code of a service without work now."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Due:
    """The service is to run now. `instant` is the pending plan to take up. None asks for a new plan."""

    code: ClassVar[str] = "due"
    reason: str
    instant: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class NotDue:
    """There is nothing to do yet. `again_at` is when time alone could change that. None means that only a change of the
    table can.
    """

    reason: str
    again_at: datetime | None = None
    code: str = field(default=NOTHING_TO_DO, compare=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Blocked:
    """The service must not run, even if it is due. `remedy` says what an operator has to do. `again_at` is when to
    decide again.
    """

    reason: str
    remedy: str | None = None
    again_at: datetime | None = None
    code: str = field(default=OTHER, compare=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class WouldRun:
    """The service is due, and the mode of the table only lets it be planned. Nothing is blocked: an operator who wants
    it to run sets the mode. `instant` is as of `Due`.
    """

    code: ClassVar[str] = "would_run"
    reason: str
    instant: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class DoesNotApply:
    """The service has nothing to do on a table of this kind, whatever is written to it. Nothing is blocked, and an
    operator has nothing to do.
    """

    code: ClassVar[str] = "does_not_apply"
    reason: str


Decision = Due | NotDue | WouldRun | Blocked | DoesNotApply


MEND_THE_TABLE = "fix what the sentence names: a file, an address or a login. The table is read again by itself"
"""The remedy of a table that cannot be observed."""


def not_observed(reason: str) -> Blocked:
    """Return the decision on each service of a table that cannot be observed."""
    return Blocked(code="not_observed", reason=f"the table cannot be observed: {reason}", remedy=MEND_THE_TABLE)


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


_NUMBERS = re.compile(r"[0-9]+")


def is_change(before: Decision | None, now: Decision) -> bool:
    """Whether a decision says something else than the one before.

    Its kind, its remedy, or its reason must differ. Other numbers in the same reason are no change: "3 of 5 commits" is
    the same reason as "4 of 5 commits". Otherwise every commit of every table would be a row.
    """
    return before is None or _meaning(before) != _meaning(now)


def _meaning(decision: Decision) -> tuple[type[Decision], str, str]:
    return type(decision), _NUMBERS.sub("0", decision.reason), _NUMBERS.sub("0", remedy_of(decision) or "")


def as_read(decision: Decision) -> tuple[type[Decision], str, str | None]:
    """Return what people read of a decision."""
    return type(decision), decision.reason, remedy_of(decision)
