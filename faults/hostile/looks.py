"""Whether the API shows hostile tables as it must. Pure."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

from tests.support.hostile.hostile_table import Hostile, Looks

_NEVER_SHOWN = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
"""The Unicode categories of characters that control a terminal, reverse a text, or are no characters."""

_LINES = "\n"
"""Allowed, for JSON escapes it, and remedies have several lines."""

_LONGEST = 10_000


def wrong_with(one: Hostile, shown: Mapping[str, Any] | None) -> str | None:
    """Return what is wrong with how a hostile table is shown. None if it is shown as it must be."""
    if shown is None:
        return "it is not shown"
    if shown["observed_seconds_ago"] is None and shown["failure"] is None:
        return "it was never observed, and nothing says why"
    if unprintable := next(_unprintable(shown), None):
        return f"it shows {unprintable!a}"
    decided = [service["decision"] for service in shown["services"].values() if service["decision"] is not None]
    blocked = [one for one in decided if one["decision"] == "Blocked"]
    told = bool(shown["failure"] or shown["faults"])
    match one.looks:
        case Looks.FAILING if not told and (not decided or len(blocked) < len(decided)):
            return f"it shows no fault: {_told(shown)}"
        case Looks.BLOCKED if not told and not blocked:
            return f"nothing is Blocked: {_told(shown)}"
        case _:
            return None


def _unprintable(shown: Any) -> Iterator[str]:
    match shown:
        case str():
            if len(shown) > _LONGEST:
                yield shown[:50]
            yield from (
                character
                for character in shown
                if unicodedata.category(character) in _NEVER_SHOWN and character not in _LINES
            )
        case Mapping():
            for key, value in shown.items():
                yield from _unprintable(key)
                yield from _unprintable(value)
        case list():
            for value in shown:
                yield from _unprintable(value)


def _told(shown: Mapping[str, Any]) -> str:
    decisions = {
        name: (service["decision"] or {}).get("decision", "none") + ": " + (service["decision"] or {}).get("reason", "")
        for name, service in shown["services"].items()
    }
    return json.dumps(decisions)[:600]
