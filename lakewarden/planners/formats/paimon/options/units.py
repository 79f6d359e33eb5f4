"""Durations and sizes as Paimon's options write them.

Source: Paimon 1.3.1, `org.apache.paimon.utils.TimeUtils.parseDuration` and `org.apache.paimon.options.MemorySize`.
"""

from __future__ import annotations

import re
from datetime import timedelta

_QUANTITY = re.compile(r"([0-9]{1,18})\s*([a-zµ]*)", re.ASCII | re.IGNORECASE)

_MICROSECONDS = {
    **dict.fromkeys(("d", "day", "days"), 86_400_000_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000_000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000_000),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1_000_000),
    **dict.fromkeys(("", "ms", "milli", "millis", "millisecond", "milliseconds"), 1000),
    **dict.fromkeys(("µs", "micro", "micros", "microsecond", "microseconds"), 1),
}
_BYTES = {
    **dict.fromkeys(("", "b", "bytes"), 1),
    **dict.fromkeys(("k", "kb", "kibibytes"), 2**10),
    **dict.fromkeys(("m", "mb", "mebibytes"), 2**20),
    **dict.fromkeys(("g", "gb", "gibibytes"), 2**30),
    **dict.fromkeys(("t", "tb", "tebibytes"), 2**40),
}
_LONGEST = timedelta(days=36_500)


def duration(text: str) -> timedelta:
    """Return a duration: `1 h`, `60s`, `100` (milliseconds). One of more than a century is a century.

    Raises ValueError for any other text.
    """
    microseconds = _product(text, _MICROSECONDS)
    return min(timedelta(microseconds=min(microseconds, _LONGEST // timedelta(microseconds=1))), _LONGEST)


def size(text: str) -> int:
    """Return a number of bytes: `128 mb`, `1g`, `1024`. Raises ValueError for any other text."""
    return _product(text, _BYTES)


def _product(text: str, units: dict[str, int]) -> int:
    found = _QUANTITY.fullmatch(text.strip())
    unit = None if found is None else units.get(found[2].lower())
    if found is None or unit is None:
        raise ValueError(f"{text[:60]!r} is no quantity")
    return int(found[1]) * unit
