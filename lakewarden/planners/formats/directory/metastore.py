"""A partition as a metastore lists it, and the names by which its folder is found there. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from lakewarden.planners.formats.directory.listing.folders import Folder
from lakewarden.planners.formats.directory.options import MetastoreOptions
from lakewarden.planners.metastores import Metastores
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.settings import shown
from lakewarden.planners.storage import canonical_location

if TYPE_CHECKING:
    from hive_metastore.ThriftHiveMetastore import Client  # type: ignore[import-untyped]


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
    level_values = [values.get(column.name) for column in columns]
    return None if None in level_values else tuple(value for value in level_values if value is not None)


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
            moment = float(parameters.get(key) or "")
        except ValueError:
            continue
        if math.isfinite(moment):
            return moment
    return 0.0


# A look at the table of a directory in its metastore: which partitions it lists, where, and since when.

_ALL = -1
_AT_ONCE = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class TableThere:
    """The table in its metastore, as the metastore's own object, with its columns and its place there."""

    table: Any
    columns: tuple[PartitionColumn, ...]
    place: str


def table_there(client: Client, options: MetastoreOptions, location: str) -> TableThere:
    """Return the table. Raises PermanentError if it is missing, or is no table of partitions in the directory."""
    from hive_metastore.ttypes import NoSuchObjectException  # type: ignore  # noqa: PLC0415 - optional, slow to import

    try:
        table = client.get_table(options.database, options.table)
    except NoSuchObjectException as missing:
        raise PermanentError(
            f"{options.place} is missing: create an external table there, with LOCATION {shown(location)}"
        ) from missing
    place = table.sd.location if table.sd is not None else None
    if not place or not _same_place(place, location):
        where = f"at {shown(place)}" if place else "at no place"
        raise PermanentError(f"{options.place} is {where}, and not at {shown(location)}")
    columns = tuple(column_of(key.name, key.type or "") for key in table.partitionKeys or ())
    if not columns:
        raise PermanentError(f"{options.place} has no partition columns: create it with PARTITIONED BY")
    if ((table.parameters or {}).get("transactional") or "").lower() == "true":
        raise PermanentError(f"{options.place} is transactional: Hive alone may add partitions to it")
    return TableThere(table=table, columns=columns, place=place.rstrip("/"))


def looked(
    options: MetastoreOptions, location: str, folders: Mapping[str, Folder], known: MetastoreLook | None
) -> MetastoreLook:
    """Return what the metastore lists of all folders. What is `known` is asked for again only if a folder has changed
    after the commit that is known. Raises TemporaryError if no metastore answers, PermanentError as `table_there`.
    """
    metastores = Metastores(options.place, options.uri, timeout=options.timeout)
    return metastores.asked(partial(_looked, options=options, location=location, folders=folders, last_look=known))


def _looked(
    client: Client,
    *,
    options: MetastoreOptions,
    location: str,
    folders: Mapping[str, Folder],
    last_look: MetastoreLook | None,
) -> MetastoreLook:
    there = table_there(client, options, location)
    names = client.get_partition_names(options.database, options.table, _ALL)
    named = _named(names, folders, there.columns)
    before = {} if last_look is None else last_look.partitions
    partitions: dict[str, ListedPartition] = {}
    paths: dict[str, str] = {}
    for path, name in named.items():
        partition = before.get(path)
        if partition is None or partition.elsewhere is not None or partition.up_to < folders[path].changed_at:
            paths[name] = path
        else:
            partitions[path] = partition
    for text, partition in _objects(client, options, paths):
        partitions[paths[text]] = listed(partition, there, location, paths[text])
    places = {} if last_look is None else last_look.strangers
    others = set(names).difference(named.values())
    strangers = {name: places[name] for name in others if name in places}
    strangers |= {text: _place_of(partition) for text, partition in _objects(client, options, others - places.keys())}
    elsewhere = {path: partition.elsewhere for path, partition in partitions.items() if partition.elsewhere is not None}
    return MetastoreLook(
        columns=there.columns,
        partitions=partitions,
        strangers=strangers,
        taken={
            below: name
            for name, place in (strangers | elsewhere).items()
            if (below := _below(place, there, location)) is not None
        },
    )


def _named(
    names: Sequence[str], folders: Mapping[str, Folder], columns: Sequence[PartitionColumn]
) -> Mapping[str, str]:
    """Return the names by which a metastore lists folders, by their paths. `hr=07` and `hr=7` of a whole number are two
    partitions if it lists both. If it lists one of them, that is the one.
    """
    left = {values_in(name): name for name in names}
    valued = {path: values_of(path, columns) for path, folder in folders.items() if folder.files}
    by_path = {path: left.pop(values) for path, values in valued.items() if values is not None and values in left}
    loose = {compared(values, columns): name for values, name in left.items()}
    for path, values in valued.items():
        if values is not None and path not in by_path and (key := compared(values, columns)) in loose:
            by_path[path] = loose.pop(key)
    return by_path


def _objects(client: Client, options: MetastoreOptions, names: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """Yield the metastore's objects of these names, in pieces."""
    left = iter(names)
    while some := list(islice(left, _AT_ONCE)):
        called = {values_in(text): text for text in some}
        for partition in client.get_partitions_by_names(options.database, options.table, some):
            if (name := called.get(tuple(partition.values or ()))) is not None:
                yield name, partition


def listed(partition: Any, there: TableThere, location: str, path: str) -> ListedPartition:
    """Return a partition of the metastore that belongs to the folder at a path below the table."""
    place = _place_of(partition)
    here = place == f"{there.place}/{path}" or _same_place(place, f"{location}/{path}")
    return ListedPartition(
        values=tuple(partition.values), up_to=up_to_of(partition.parameters or {}), elsewhere=None if here else place
    )


def _place_of(partition: Any) -> str:
    return (partition.sd.location if partition.sd is not None else None) or ""


def _below(place: str, there: TableThere, location: str) -> str | None:
    """Return the path of a place below the table; None if it is not below."""
    if place.startswith(f"{there.place}/"):
        return place.removeprefix(f"{there.place}/").rstrip("/")
    try:
        canonical = canonical_location(place)
    except PermanentError:
        return None
    return canonical.removeprefix(f"{location}/") if canonical.startswith(f"{location}/") else None


def _same_place(place: str, location: str) -> bool:
    try:
        return canonical_location(place) == location
    except PermanentError:
        return False
