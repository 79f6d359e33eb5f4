"""Patterns of times, by the letters of Java's DateTimeFormatter that a partition time is made of. Pure."""

from __future__ import annotations

import re
from functools import lru_cache

from lakewarden.planners.settings import shown

_FIELDS = {"y": "year", "u": "year", "M": "month", "d": "day", "H": "hour", "m": "minute", "s": "second"}
_TOKEN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']", re.DOTALL)
_NEEDED = ("year", "month", "day")


@lru_cache(maxsize=256)
def time_pattern(pattern: str) -> re.Pattern[str]:
    """Return what reads a text of a pattern such as `yyyyMMdd HH:mm:ss`, with a group for each field.

    One letter stands for a number of any length, several for a number of so many digits, as in Java. Text stands
    between single quotes. Raises ValueError for other letters, for a field twice, where the date is not complete, and
    for one letter right beside another field: Java divides such digits in its own way.
    """
    parts, fields, place, beside = list[str](), list[str](), 0, ""
    while place < len(pattern):
        found = _TOKEN.match(pattern, place)
        if found is None:
            raise ValueError(f"{shown(pattern)} has a quote without its end")
        place = found.end()
        if found[1] is not None:
            parts.append(re.escape(found[1].replace("''", "'") or "'"))
        elif found[2] is not None:
            if beside and 1 in (len(beside), len(found[0])):
                raise ValueError(
                    f"{shown(pattern)} leaves open where {beside} ends and {found[0]} begins: write several letters "
                    "for each, or put something between them"
                )
            parts.append(_number(pattern, found[2], len(found[0]), fields))
        else:
            parts.append(re.escape(found[0]))
        beside = found[0] if found[2] is not None else ""
    if missing := [name for name in _NEEDED if name not in fields]:
        raise ValueError(f"{shown(pattern)} names no {' and no '.join(missing)}")
    return re.compile("".join(parts))


def _number(pattern: str, sign: str, length: int, fields: list[str]) -> str:
    field = _FIELDS.get(sign)
    if field is None:
        raise ValueError(f"{shown(pattern)} holds the letter {sign}: write y, M, d, H, m and s, or put it in quotes")
    if field in fields:
        raise ValueError(f"{shown(pattern)} names the {field} twice")
    if length == 2 and field == "year":
        raise ValueError(f"{shown(pattern)} leaves the century open: write yyyy")
    fields.append(field)
    digits = r"[0-9]{1,9}" if length == 1 else f"[0-9]{{{length}}}"
    return f"(?P<{field}>{digits})"
