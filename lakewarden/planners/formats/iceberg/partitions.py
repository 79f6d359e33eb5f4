"""What a partition is called, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any
from urllib.parse import quote_plus

from lakewarden.planners.formats.iceberg.metadata import PartitionField

_EPOCH = date(1970, 1, 1)
_quoted = lru_cache(maxsize=10_000)(quote_plus)


def partition_path(values: Mapping[str, Any], fields: Sequence[PartitionField]) -> str:
    """Return a partition as Iceberg names its folder (`PartitionSpec.partitionToPath`): `day=2026-01-01/region=eu`;
    only moments, which Avro always reads in UTC, bear their zone whether the column has one or not.

    `values` is the `partition` record of a manifest entry, in the order of its spec's `fields`.
    """
    if not values:
        return ""
    transforms = {one.name: one.transform for one in fields}
    return "/".join(f"{_quoted(name)}={_text(value, transforms.get(name, ''))}" for name, value in values.items())


def _text(value: Any, transform: str) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime | date):
        return _quoted(value.isoformat())
    if isinstance(value, int):
        return _counted(value, transform)
    if isinstance(value, bytes):
        return value.hex()
    return _quoted(str(value))


def _counted(value: int, transform: str) -> str:
    """Return a count of years, months, days or hours since 1970 as the moment that it stands for."""
    match transform:
        case "year":
            return f"{1970 + value:04d}"
        case "month":
            return f"{1970 + value // 12:04d}-{value % 12 + 1:02d}"
        case "day":
            return (_EPOCH + timedelta(days=value)).isoformat()
        case "hour":
            return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(hours=value)).strftime("%Y-%m-%d-%H")
        case _:
            return str(value)
