"""What a partition is called, for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from hashlib import blake2b
from typing import Any
from urllib.parse import quote_plus
from uuid import UUID

from lakewarden.planners.formats.iceberg.metadata.metadata import PartitionField

_EPOCH = date(1970, 1, 1)
_MOMENT = datetime(1970, 1, 1)  # noqa: DTZ001 - the zone is added where there is one
_LONGEST = 512
_LONGEST_DECIMAL = 16
_quoted = lru_cache(maxsize=10_000)(quote_plus)

Kind = Mapping[str, Any]
"""A field's Avro type, with what its numbers or bytes stand for (`logicalType`)."""


def partition_kinds(schema: Any) -> Mapping[str, Kind]:
    """Return the logical types of the partition's fields, by their names, as a manifest's Avro schema tells them: no
    field for one that stands for itself.
    """
    entry = _field(schema, "data_file")
    fields = _field(entry, "partition").get("fields") or ()
    kinds = {one["name"]: _type_of(one) for one in fields}
    return {name: kind for name, kind in kinds.items() if isinstance(kind.get("logicalType"), str)}


def partition_path(
    values: Mapping[str, Any], fields: Sequence[PartitionField], kinds: Mapping[str, Kind] | None = None
) -> str:
    """Return a partition as Iceberg names its folder (`PartitionSpec.partitionToPath`): `day=2026-01-01/region=eu`;
    only moments, which Avro always reads in UTC, bear their zone whether the column has one or not. A value that no
    calendar knows is told as a number, and a very long one is cut, with a digest of the whole.

    `values` is the `partition` record of a manifest entry, in the order of its spec's `fields`, and `kinds` are their
    logical types.
    """
    if not values:
        return ""
    transforms = {one.name: one.transform for one in fields}
    known = kinds or {}
    return "/".join(
        f"{_cut(name)}={_text(value, transforms.get(name, ''), known.get(name))}" for name, value in values.items()
    )


def _text(value: Any, transform: str, kind: Kind | None) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | bytes) and kind is not None:
        meant = _meant(value, kind)
        if meant is not None:
            return _cut(meant)
    if isinstance(value, int):
        return _counted(value, transform)
    if isinstance(value, bytes):
        return _cut(value.hex())
    return _cut(str(value))


def _cut(text: str) -> str:
    if len(text) <= _LONGEST:
        return _quoted(text)
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"{quote_plus(text[:_LONGEST])}...{digest}"


def _counted(value: int, transform: str) -> str:
    """Return a count of years, months, days or hours since 1970 as the moment that it stands for."""
    try:
        match transform:
            case "year":
                return f"{1970 + value:04d}"
            case "month":
                return f"{1970 + value // 12:04d}-{value % 12 + 1:02d}"
            case "day":
                return (_EPOCH + timedelta(days=value)).isoformat()
            case "hour":
                return (_MOMENT + timedelta(hours=value)).strftime("%Y-%m-%d-%H")
    except OverflowError:
        pass
    return str(value)


def _meant(value: int | bytes, kind: Kind) -> str | None:
    """Return what a number or bytes of a logical type stand for; None where they stand for themselves.

    Source: Avro specification, "Logical Types", and Iceberg's table spec, appendix A.
    """
    what = kind["logicalType"]
    try:
        if isinstance(value, int):
            return _NUMBERS[what](value) if what in _NUMBERS else None
        if what == "uuid":
            return str(UUID(bytes=value))
        if what == "decimal" and len(value) <= _LONGEST_DECIMAL:
            return str(Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-int(kind.get("scale", 0))))
    except (ValueError, OverflowError, ArithmeticError, TypeError):
        pass
    return None


def _moment(microseconds: int) -> datetime:
    return _MOMENT + timedelta(microseconds=microseconds)


def _time(microseconds: int) -> str:
    if not 0 <= microseconds < 24 * 3600 * 10**6:
        raise ValueError("it is no time of a day")
    at = _moment(microseconds)
    return str(time(at.hour, at.minute, at.second, at.microsecond))


def _in_utc(microseconds: int) -> str:
    return _moment(microseconds).replace(tzinfo=UTC).isoformat()


_NUMBERS: Mapping[str, Callable[[int], str]] = {
    "date": lambda days: (_EPOCH + timedelta(days=days)).isoformat(),
    "time-millis": lambda value: _time(value * 1000),
    "time-micros": _time,
    "timestamp-millis": lambda value: _in_utc(value * 1000),
    "timestamp-micros": _in_utc,
    "local-timestamp-millis": lambda value: _moment(value * 1000).isoformat(),
    "local-timestamp-micros": lambda value: _moment(value).isoformat(),
}


def _field(record: Any, name: str) -> Kind:
    """Return the type of a record's field; an empty one where there is none of this name."""
    fields = record.get("fields") if isinstance(record, Mapping) else None
    return next((_type_of(one) for one in fields or () if one.get("name") == name), {})


def _type_of(field: Mapping[str, Any]) -> Kind:
    """Return a field's type, whether it is optional or not."""
    kind = field.get("type")
    branches = kind if isinstance(kind, list) else [kind]
    return next((one for one in branches if isinstance(one, Mapping)), {})
