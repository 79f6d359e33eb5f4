"""The base of every settings type. Settings are frozen and refuse unknown keys. Durations and sizes have a unit, and
numbers are bounded.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, get_origin
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainSerializer,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_BYTES = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)")

LONGEST_TEXT = 8192
"""The most characters of a setting that is a text."""

_PRINTING = reprlib.Repr()
_PRINTING.maxstring = _PRINTING.maxother = _PRINTING.maxlong = 60


class Settings(BaseModel):
    """A group of settings. An unknown key is refused, with its path."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, str_max_length=LONGEST_TEXT, allow_inf_nan=False
    )

    @model_validator(mode="before")
    @classmethod
    def _nothing_is_the_default(cls, value: Any) -> Any:
        """If a group or a list has nothing behind its key, ignore the key. All its lines are comments then."""
        if not isinstance(value, Mapping):
            return value
        return {key: setting for key, setting in value.items() if setting is not None or not cls._holds_others(key)}

    @classmethod
    def _holds_others(cls, key: str) -> bool:
        field = cls.model_fields.get(key)
        kind = None if field is None else get_origin(field.annotation) or field.annotation
        return kind in (tuple, dict) or (isinstance(kind, type) and issubclass(kind, BaseModel))


@dataclass(frozen=True, slots=True)
class Within:
    """The lowest and the highest value of a setting, as they would be written in the file. Both are allowed.

    Every setting that is a number, a duration or a size has one in its annotation. So no value in a file makes the
    daemon spin, wait without end, or count beyond what Python can.
    """

    least: float | str
    most: float | str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of the setting with its bounds."""
        return core_schema.no_info_wrap_validator_function(self._checked, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Return the JSON schema. It can express the bounds of plain numbers, but not those of durations and sizes."""
        bounds = {} if isinstance(self.least, str) else {"minimum": self.least, "maximum": self.most}
        return handler(schema) | bounds

    def _checked(self, written: Any, read: core_schema.ValidatorFunctionWrapHandler) -> Any:
        if isinstance(written, bool):
            raise ValueError(f"{str(written).lower()} is not a number: write {self}")  # noqa: TRY004 - the error type of pydantic
        value = read(written)
        least, most = (_measured(bound, value) for bound in (self.least, self.most))
        if least <= value <= most:
            return value
        raise ValueError(f"{_as_written(written)} is too {'low' if value < least else 'high'}: write {self}")

    def __str__(self) -> str:
        """Return both bounds in the words of a message."""
        return f"{self.least} to {self.most}"


def _measured(bound: float | str, value: Any) -> Any:
    """Return a bound as a value of the type that it is compared with."""
    if not isinstance(bound, str):
        return bound
    return parse_duration(bound) if isinstance(value, timedelta) else parse_size(bound)


def shown(value: Any) -> str:
    """Return a value in the form of a message: never longer than a line."""
    return _PRINTING.repr(value)


def _as_written(written: Any) -> str:
    """Return a value as it was written, without its quotes."""
    match written:
        case timedelta():
            return format_duration(written)
        case str():
            return shown(written)[1:-1]
        case _:
            return shown(written)


def _quantity(value: Any, units: dict[str, Any], what: str) -> float:
    example = "10s" if what == "duration" else "128MiB"
    match = _QUANTITY.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or match[2] not in units:
        raise ValueError(
            f"{shown(value)} is not a {what}: write a number and one of {', '.join(units)}, as in {example}"
        )
    return float(match[1]) * float(units[match[2]])


def parse_duration(value: Any) -> timedelta:
    """Return the duration that `value` names (`500ms`, `10s`, `15m`, `2h`, `7d`). One that is too long for a
    `timedelta` becomes the longest, so that it is found beyond its bound.

    Raises ValueError, naming the units, for anything else.
    """
    if isinstance(value, timedelta):
        return value
    seconds = _quantity(value, _SECONDS, "duration")
    return timedelta(seconds=seconds) if seconds < timedelta.max.total_seconds() else timedelta.max


def parse_size(value: Any) -> int:
    """Return the bytes that `value` names (`512B`, `128MiB`), at most 2^63. Raises ValueError, naming the units."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return int(min(_quantity(value, _BYTES, "size"), 2.0**63))


def format_duration(value: timedelta) -> str:
    """Return `value` in its largest whole unit, as `parse_duration` reads it."""
    milliseconds = round(value.total_seconds() * 1000)
    if milliseconds == 0:
        return "0s"
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if milliseconds % size == 0:
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
        raise ValueError(f"{shown(value)} is not an IANA time zone, such as 'UTC'") from unknown
    return value


TimeZone = Annotated[str, AfterValidator(_known_zone)]
"""The name of a time zone of the IANA database."""

Duration = Annotated[timedelta, BeforeValidator(parse_duration), PlainSerializer(format_duration, return_type=str)]
Size = Annotated[int, BeforeValidator(parse_size), PlainSerializer(format_size, return_type=str)]
