"""Whether hostile tables look as they must, by what the API shows of them. Pure."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

from tests.support.hostile_tables import Hostile, Looks

_NEVER_SHOWN = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
"""Unicode's categories of what steers a terminal, turns a text round, or is none."""

_LINES = "\n"
"""JSON escapes it, and remedies have several lines."""

_LONGEST = 10_000

_ONLY_A_PLAN = "would run"
"""How the reason begins of a service that only the table's mode holds back."""


def wrong_with(one: Hostile, shown: Mapping[str, Any] | None) -> str | None:
    """Return what is wrong with how a hostile table is shown; None if it is as it must be."""
    if shown is None:
        return "it is not shown"
    if shown["looked_seconds_ago"] is None and shown["trouble"] is None:
        return "it was never looked at, and nothing says why"
    if unprintable := next(_unprintable(shown), None):
        return f"it shows {unprintable!a}"
    decided = [service["decision"] for service in shown["services"].values() if service["decision"] is not None]
    blocked = [one for one in decided if one["decision"] == "Blocked" and not one["reason"].startswith(_ONLY_A_PLAN)]
    told = bool(shown["trouble"] or shown["faults"] or shown["claimed"])
    match one.looks:
        case Looks.TROUBLED if not told and (not decided or len(blocked) < len(decided)):
            return f"it looks healthy: {_told(shown)}"
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
                letter for letter in shown if unicodedata.category(letter) in _NEVER_SHOWN and letter not in _LINES
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
