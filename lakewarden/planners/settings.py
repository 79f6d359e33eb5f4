"""The base of every settings type: frozen, no unknown keys, durations and sizes with their unit."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, PlainSerializer

_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_BYTES = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)")


class Settings(BaseModel):
    """A group of settings. A key it does not know is refused, with its path."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


def _quantity(value: Any, units: dict[str, Any], example: str) -> float:
    found = _QUANTITY.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None or found[2] not in units:
        raise ValueError(f"{value!r} needs a number and a unit of {', '.join(units)}, as in {example!r}")
    return float(found[1]) * float(units[found[2]])


def parse_duration(value: Any) -> timedelta:
    """Return the duration that `value` names (`500ms`, `10s`, `15m`, `2h`, `7d`).

    Raises ValueError, naming the units, for anything else.
    """
    if isinstance(value, timedelta):
        return value
    return timedelta(seconds=_quantity(value, _SECONDS, "10m"))


def parse_size(value: Any) -> int:
    """Return the bytes that `value` names (`512B`, `128MiB`). Raises ValueError, naming the units."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return int(_quantity(value, _BYTES, "128MiB"))


def format_duration(value: timedelta) -> str:
    """Return `value` in its largest whole unit, as `parse_duration` reads it."""
    milliseconds = round(value.total_seconds() * 1000)
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if milliseconds and milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds}ms"


def format_size(value: int) -> str:
    """Return `value` bytes in its largest unit, as `parse_size` reads it: whole, or rounded to one decimal."""
    unit, size = max(((u, n) for u, n in _BYTES.items() if n <= max(value, 1)), key=lambda pair: pair[1])
    return f"{value // size}{unit}" if value % size == 0 else f"{value / size:.1f}{unit}"


def _known_zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError) as unknown:
        raise ValueError(f"{value!r} is not a time zone of the IANA database, as 'UTC' is") from unknown
    return value


TimeZone = Annotated[str, AfterValidator(_known_zone)]
"""The name of a time zone of the IANA database."""

Duration = Annotated[timedelta, BeforeValidator(parse_duration), PlainSerializer(format_duration, return_type=str)]
Size = Annotated[int, BeforeValidator(parse_size), PlainSerializer(format_size, return_type=str)]
