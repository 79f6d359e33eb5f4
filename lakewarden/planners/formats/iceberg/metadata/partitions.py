"""The name of a partition, for people."""

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
_MOMENT = datetime(1970, 1, 1)  # noqa: DTZ001 - the zone is added if there is one
_LONGEST = 512
_LONGEST_DECIMAL = 16
_quoted = lru_cache(maxsize=10_000)(quote_plus)

Kind = Mapping[str, Any]
"""The Avro type of a field, with the meaning of its numbers or bytes (`logicalType`)."""


class Partitions:
    """Names the partitions of one manifest. Engines spell a field in Avro in different ways, and not all say the
    logical type of its values. The table's metadata says both, so a partition has one name whichever engine wrote it.
    """

    def __init__(self, schema: Any, fields: Sequence[PartitionField]) -> None:
        """Take a manifest's Avro `schema` and the `fields` of its partition spec."""
        written = _field(_field(schema, "data_file"), "partition").get("fields") or ()
        by_id = {field.field_id: field for field in fields}
        by_name = {field.name: field for field in fields}
        self._fields = fields
        self._names: dict[str, str] = {}
        self._kinds: dict[str, Kind] = {}
        self._known: dict[tuple[Any, ...], str] = {}
        for avro_field in written:
            field = by_id.get(avro_field.get("field-id")) or by_name.get(avro_field["name"])
            name = self._names[avro_field["name"]] = avro_field["name"] if field is None else field.name
            kind = _type_of(avro_field)
            if not isinstance(kind.get("logicalType"), str):
                kind = {} if field is None else _kind_of(field)
            if kind:
                self._kinds[name] = kind

    def path(self, values: Mapping[str, Any] | None) -> str:
        """Return the name of the partition with these `values`, the `partition` record of a manifest entry. Without
        partitions some engines write no record.
        """
        if not values:
            return ""
        key = tuple(values.values())
        if key not in self._known:
            named = {self._names.get(name, name): value for name, value in values.items()}
            order = {field.name: at for at, field in enumerate(self._fields)}
            in_order = dict(sorted(named.items(), key=lambda item: order.get(item[0], len(order))))
            self._known[key] = partition_path(in_order, self._fields, self._kinds)
        return self._known[key]


def _kind_of(field: PartitionField) -> Kind:
    """Return the logical type of a field's values by the type of its column."""
    if field.transform != "identity" and not field.transform.startswith("truncate"):
        return {}
    name, _, rest = field.source.partition("(")
    if name == "decimal":
        return {"logicalType": name, "scale": int(rest.rstrip(")").partition(",")[2])}
    logical = _LOGICAL.get(name)
    return {} if logical is None else {"logicalType": logical}


_LOGICAL = {
    "date": "date",
    "time": "time-micros",
    "timestamp": "timestamp-micros",
    "timestamptz": "timestamp-micros",
    "uuid": "uuid",
}


def partition_path(
    values: Mapping[str, Any], fields: Sequence[PartitionField], kinds: Mapping[str, Kind] | None = None
) -> str:
    """Return a partition as Iceberg names its folder (`PartitionSpec.partitionToPath`): `day=2026-01-01/region=eu`.
    There are three differences. Timestamps always have a zone, because Avro reads them in UTC. A value outside the
    calendar is a number. A very long value is cut, with a digest of the whole.

    `values` is the `partition` record of a manifest entry, in the order of its spec's `fields`. `kinds` are their
    logical types.
    """
    if not values:
        return ""
    transforms = {field.name: field.transform for field in fields}
    kind_of = kinds or {}
    return "/".join(
        f"{_cut(name)}={_text(value, transforms.get(name, ''), kind_of.get(name))}" for name, value in values.items()
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
    """Return the date or hour for a count of years, months, days or hours since 1970."""
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
    """Return the meaning of a number or bytes of a logical type. None if the value stands for itself.

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
        raise ValueError("it is not a time of a day")
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
    "local-timestamp-millis": lambda value: _in_utc(value * 1000),
    "local-timestamp-micros": _in_utc,
}


def _field(record: Any, name: str) -> Kind:
    """Return the type of a record's field. It is empty if there is no field of this name."""
    fields = record.get("fields") if isinstance(record, Mapping) else None
    return next((_type_of(field) for field in fields or () if field.get("name") == name), {})


def _type_of(field: Mapping[str, Any]) -> Kind:
    """Return a field's type without the null of an optional field."""
    kind = field.get("type")
    branches = kind if isinstance(kind, list) else [kind]
    return next((branch for branch in branches if isinstance(branch, Mapping)), {})
