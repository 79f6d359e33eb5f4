"""The rule which decisions are changes, that the history keeps. Pure."""

from __future__ import annotations

import re

from lakewarden.planners.model.decision import Decision, remedy_of

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
