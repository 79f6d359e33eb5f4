"""The time of a partition, read from the values of its columns as Flink reads it. Pure.

Source: Flink's `DefaultPartTimeExtractor` and `PartitionPathUtils`. Its own formatter is lenient: the hour 24 is the
next day's first, the month 13 the next year's January.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from lakewarden.planners.partitions.time_options import PartitionTimeOptions
from lakewarden.planners.partitions.time_pattern import time_pattern

_DATE = r"(?P<year>[0-9]{1,10})-(?P<month>[0-9]{1,2})-(?P<day>[0-9]{1,2})"
_TIME = r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{1,2}):(?P<second>[0-9]{1,2})(?:\.(?P<fraction>[0-9]{1,9}))?"
_USUAL = re.compile(f"{_DATE}(?: {_TIME})?")
_FIELDS = ("year", "month", "day", "hour", "minute", "second")
_LEAST = {"year": 1, "month": 1, "day": 1}
_MONTHS = 12
_NUMBER = re.compile(r"[0-9]{1,9}")


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
    local = _by_columns(values, options) if options.columns else _by_pattern(values, options)
    if local is None:
        return None
    try:
        return local.replace(tzinfo=ZoneInfo(options.time_zone)).astimezone(UTC)
    except (OverflowError, ValueError):  # before the first year, or after the last
        return None


def _by_columns(values: Mapping[str, str], options: PartitionTimeOptions) -> datetime | None:
    numbers = [values.get(column, "") for column in options.columns]
    if not all(_NUMBER.fullmatch(number) for number in numbers):
        return None
    return _moment(dict(zip(_FIELDS, numbers, strict=False)), lenient=False)


def _by_pattern(values: Mapping[str, str], options: PartitionTimeOptions) -> datetime | None:
    text = _put_together(values, options.timestamp_pattern)
    lenient = options.timestamp_formatter is None
    pattern = _USUAL if options.timestamp_formatter is None else time_pattern(options.timestamp_formatter)
    found = None if text is None else pattern.fullmatch(text)
    return None if found is None else _moment(found.groupdict(), lenient=lenient)


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


def _moment(found: Mapping[str, str | None], *, lenient: bool) -> datetime | None:
    year, month, day, hour, minute, second = (int(found.get(name) or _LEAST.get(name, 0)) for name in _FIELDS)
    fraction = int((found.get("fraction") or "").ljust(6, "0")[:6])
    try:
        if not lenient:
            return datetime(year, month, day, hour, minute, second)  # noqa: DTZ001 - the caller knows its zone
        months = year * _MONTHS + month - 1
        first = datetime(months // _MONTHS, months % _MONTHS + 1, 1)  # noqa: DTZ001 - as above
        return first + timedelta(days=day - 1, hours=hour, minutes=minute, seconds=second, microseconds=fraction)
    except (ValueError, OverflowError):
        return None
