"""A partition as a metastore lists it, and the names by which its folder is found there. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote

COMMITTED_AT = "lakewarden.changed-at"
"""The parameter of a partition that says up to which change it is committed, in seconds since the epoch."""

_LAST_CHANGE_THERE = "transient_lastDdlTime"
"""The parameter in which a metastore keeps when the partition was added or altered, in whole seconds."""

_WHOLE_NUMBERS = frozenset({"tinyint", "smallint", "int", "integer", "bigint"})


@dataclass(frozen=True, kw_only=True, slots=True)
class PartitionColumn:
    """One partition column of a table of a metastore, in lower case, and whether its values are whole numbers."""

    name: str
    is_number: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedPartition:
    """One partition that a metastore lists, by its values there. `up_to` is the newest change that it is committed
    with, in seconds since the epoch. `elsewhere` is its place if that is not its folder.
    """

    values: tuple[str, ...]
    up_to: float
    elsewhere: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class MetastoreLook:
    """What a metastore lists: its columns, and the partitions by their paths below the table. `strangers` are the
    places of partitions that belong to no folder with data, by their names. `taken` are the paths below the table to
    which the entry of another partition leads, with the name of that partition.
    """

    columns: tuple[PartitionColumn, ...]
    partitions: Mapping[str, ListedPartition] = field(default_factory=dict)
    strangers: Mapping[str, str] = field(default_factory=dict)
    taken: Mapping[str, str] = field(default_factory=dict)

    def led_into(self, folder: str) -> Mapping[str, str]:
        """Return the partitions with entries that lead below a folder of the table, by the paths to which they lead."""
        return {below: name for below, name in self.taken.items() if below.startswith(f"{folder}/")}


def column_of(name: str, kind: str) -> PartitionColumn:
    """Return a column by its name and type in a metastore."""
    return PartitionColumn(name=name.lower(), is_number=kind.lower() in _WHOLE_NUMBERS)


def values_of(path: str, columns: Sequence[PartitionColumn]) -> tuple[str, ...] | None:
    """Return the values of a partition by its path below the table, in the order of the columns; None if the levels
    are not the columns. Levels without a column, as in `2026/03/01`, are taken in their order.

    Source: Hive's `FileUtils.escapePathName`: of `hr=a%2Fb` the value is `a/b`. Hive keeps columns in lower case.
    """
    levels = path.split("/")
    if not path or len(levels) != len(columns):
        return None
    named = [level.partition("=") for level in levels]
    if not any(sign for _, sign, _ in named):
        return tuple(levels)
    values = {unquote(name).lower(): unquote(value) for name, sign, value in named if sign}
    found = [values.get(column.name) for column in columns]
    return None if None in found else tuple(value for value in found if value is not None)


def values_in(name: str) -> tuple[str, ...]:
    """Return the values in the name of a partition, as a metastore writes it."""
    return tuple(unquote(part.partition("=")[2]) for part in name.split("/"))


def compared(values: Sequence[str], columns: Sequence[PartitionColumn]) -> tuple[str, ...]:
    """Return values so that those of one partition are equal: Hive's own client lists `hr=07` of an int as `7`."""
    return tuple(
        str(int(value)) if column.is_number and value.isascii() and value.isdigit() else value
        for value, column in zip(values, columns, strict=False)
    )


def up_to_of(parameters: Mapping[str, str]) -> float:
    """Return up to which change a partition is committed. If another program has listed it, that is when it did so; 0
    if nothing tells it.
    """
    for key in (COMMITTED_AT, _LAST_CHANGE_THERE):
        try:
            told = float(parameters.get(key) or "")
        except ValueError:
            continue
        if math.isfinite(told):
            return told
    return 0.0
