"""How the time of a partition is read from its name, in the terms of Flink's filesystem sink."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from pydantic import Field, field_validator

from lakewarden.planners.settings import Settings, TimeZone, shown

# Patterns of times, by the letters of Java's DateTimeFormatter that a partition time is made of. Pure.

_PATTERN_FIELDS = {"y": "year", "u": "year", "M": "month", "d": "day", "H": "hour", "m": "minute", "s": "second"}
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
        token = _TOKEN.match(pattern, place)
        if token is None:
            raise ValueError(f"{shown(pattern)} has a quote without its end")
        place = token.end()
        if token[1] is not None:
            parts.append(re.escape(token[1].replace("''", "'") or "'"))
        elif token[2] is not None:
            if beside and 1 in (len(beside), len(token[0])):
                raise ValueError(
                    f"{shown(pattern)} leaves open where {beside} ends and {token[0]} begins: write several letters "
                    "for each, or put something between them"
                )
            parts.append(_number(pattern, token[2], len(token[0]), fields))
        else:
            parts.append(re.escape(token[0]))
        beside = token[0] if token[2] is not None else ""
    if missing := [name for name in _NEEDED if name not in fields]:
        raise ValueError(f"{shown(pattern)} names no {' and no '.join(missing)}")
    return re.compile("".join(parts))


def _number(pattern: str, sign: str, length: int, fields: list[str]) -> str:
    field = _PATTERN_FIELDS.get(sign)
    if field is None:
        raise ValueError(f"{shown(pattern)} holds the letter {sign}: write y, M, d, H, m and s, or put it in quotes")
    if field in fields:
        raise ValueError(f"{shown(pattern)} names the {field} twice")
    if length == 2 and field == "year":
        raise ValueError(f"{shown(pattern)} leaves the century open: write yyyy")
    fields.append(field)
    digits = r"[0-9]{1,9}" if length == 1 else f"[0-9]{{{length}}}"
    return f"(?P<{field}>{digits})"


class PartitionTimeOptions(Settings):
    """How the values of a partition's columns become its time."""

    time_zone: TimeZone = "UTC"
    """The time zone of partition times (`sink.partition-commit.watermark-time-zone`)."""

    timestamp_pattern: str | None = Field(default=None, min_length=1, max_length=500)
    """How a partition time is put together from the values of partition columns, as in `$dt $hour:00:00` or
    `$year-$month-$day` (`partition.time-extractor.timestamp-pattern`). By default the value of the first column."""

    timestamp_formatter: str | None = Field(default=None, min_length=1, max_length=100)
    """How the text is read as a time, as in `yyyyMMdd HH:mm:ss` (`partition.time-extractor.timestamp-formatter`). The
    letters are y, M, d, H, m and s. By default `yyyy-MM-dd HH:mm:ss`, or `yyyy-MM-dd`."""

    @field_validator("timestamp_formatter")
    @classmethod
    def _a_formatter(cls, value: str | None) -> str | None:
        if value is not None:
            time_pattern(value)
        return value


# The time of a partition, read from the values of its columns as Flink reads it. Pure.
#
# Source: Flink's `DefaultPartTimeExtractor` and `PartitionPathUtils`. Its own formatter is lenient: the hour 24 is the
# next day's first, the month 13 the next year's January.

_DATE = r"(?P<year>[0-9]{1,10})-(?P<month>[0-9]{1,2})-(?P<day>[0-9]{1,2})"
_TIME = r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{1,2}):(?P<second>[0-9]{1,2})(?:\.(?P<fraction>[0-9]{1,9}))?"
_USUAL = re.compile(f"{_DATE}(?: {_TIME})?")
_FIELDS = ("year", "month", "day", "hour", "minute", "second")
_LEAST = {"year": 1, "month": 1, "day": 1}
_MONTHS = 12


_FIRST_YEAR = 1000
"""`26` may mean 2026, and `0001` stands for no year at all: no partition is old by such a value."""


def age_counts_from(time: datetime | None) -> datetime | None:
    """Return the time of a partition if it may be deleted by it; None if there is none, or its year has no four
    digits.
    """
    return time if time is not None and time.year >= _FIRST_YEAR else None


def time_of(values: Mapping[str, str], options: PartitionTimeOptions) -> datetime | None:
    """Return the time of the partition with these values of its columns, in UTC; None where they tell none.

    A local time that a change of the clock leaves out, or that comes twice, is taken as `LocalDateTime.atZone` does.
    """
    text = _put_together(values, options.timestamp_pattern)
    lenient = options.timestamp_formatter is None
    pattern = _USUAL if options.timestamp_formatter is None else time_pattern(options.timestamp_formatter)
    match = None if text is None else pattern.fullmatch(text)
    local = None if match is None else _moment(match.groupdict(), lenient=lenient)
    if local is None:
        return None
    try:
        return local.replace(tzinfo=ZoneInfo(options.time_zone)).astimezone(UTC)
    except (OverflowError, ValueError):  # before the first year, or after the last
        return None


def _put_together(values: Mapping[str, str], pattern: str | None) -> str | None:
    """Return the text of a partition's time: without a pattern the first value. None where there are no values.

    The columns are put in one after the other, as Flink does: `$dt` is also found at the beginning of `$dtime`.
    """
    if not values:
        return None
    if pattern is None:
        return next(iter(values.values()))
    text = pattern
    for column, value in values.items():
        text = text.replace(f"${column}", value)
    return text


def _moment(groups: Mapping[str, str | None], *, lenient: bool) -> datetime | None:
    year, month, day, hour, minute, second = (int(groups.get(name) or _LEAST.get(name, 0)) for name in _FIELDS)
    fraction = int((groups.get("fraction") or "").ljust(6, "0")[:6])
    try:
        if not lenient:
            return datetime(year, month, day, hour, minute, second)  # noqa: DTZ001 - the caller knows its zone
        months = year * _MONTHS + month - 1
        first = datetime(months // _MONTHS, months % _MONTHS + 1, 1)  # noqa: DTZ001 - as above
        return first + timedelta(days=day - 1, hours=hour, minutes=minute, seconds=second, microseconds=fraction)
    except (ValueError, OverflowError):
        return None
