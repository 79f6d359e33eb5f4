"""Numbers from outside. It is damage if a long cannot hold them or a calendar does not know them."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

_MOST = 2**63 - 1
_DIGITS = len(str(_MOST))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_MILLISECONDS = (datetime(2200, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)
"""Later times are in another unit. Many times the span between two valid times can be added to a valid time."""


def long(value: Any, what: str = "a number") -> int:
    """Return a signed whole number of 64 bits. It may be written as a text or as a float.

    Raises ValueError that names it (`what`).
    """
    if isinstance(value, str) and len(value) <= 20 and value.lstrip("-").isascii() and value.lstrip("-").isdigit():
        value = int(value)
    if isinstance(value, float) and math.isfinite(value) and abs(value) <= _MOST:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not -_MOST - 1 <= value <= _MOST:
        raise ValueError(f"{what} is {_shown(value)}, which is no signed whole number of 64 bits")
    return value


def count(value: Any, what: str = "a count") -> int:
    """Return a number of things or bytes: a whole number of 63 bits, never below zero. Raises ValueError."""
    found = long(value, what)
    if found < 0:
        raise ValueError(f"{what} is {found}, which is below zero")
    return found


def counted(text: str) -> int | None:
    """Return a count that is written in digits alone. None for any other text."""
    found = int(text) if len(text) <= _DIGITS and text.isascii() and text.isdigit() else None
    return None if found is None or found > _MOST else found


def moment(milliseconds: Any, what: str = "a time") -> datetime:
    """Return the time that is so many milliseconds after the epoch. Raises ValueError for a time before the epoch, or
    for one so far in the future that it must be in another unit.
    """
    found = count(milliseconds, what)
    if found > _MOST_MILLISECONDS:
        raise ValueError(f"{what} is {found} milliseconds after 1970, which is no time: were they microseconds?")
    return _EPOCH + timedelta(milliseconds=found)


def _shown(value: Any) -> str:
    """Return a short text for any value. To write a huge number would take a second."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"a number of {value.bit_length()} bits"
    return repr(value)[:60] if isinstance(value, str | float | bool | None) else f"of type {type(value).__name__}"
