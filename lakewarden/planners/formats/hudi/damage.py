"""Whether `hoodie.properties` broke off: by what a table of its version has, by the values that Hudi knows, and by what
its backup says. The checksum in the file covers two names and nothing else, so it proves nothing. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lakewarden.planners.decoding.damage import DamagedError
from lakewarden.planners.decoding.json_stream import counted, from_json

TABLE_TYPE = "hoodie.table.type"
VERSION = "hoodie.table.version"
PARTITION_FIELDS = "hoodie.table.partition.fields"
BASE_FILE_FORMAT = "hoodie.table.base.file.format"
LAYOUT = "hoodie.timeline.layout.version"
MERGE_ON_READ = "MERGE_ON_READ"
FIRST_VERSION_OF_LAYOUT_2 = 8

_MERGE_MODE = "hoodie.record.merge.mode"
_EVENT_TIME = "EVENT_TIME_ORDERING"
_ORDERING_FIELDS = "hoodie.table.ordering.fields"
_PRECOMBINE = "hoodie.table.precombine.field"
"""The name of the ordering fields before table version 9."""

_RECORD_KEY = "hoodie.table.recordkey.fields"
_GENERATOR_TYPE = "hoodie.table.keygenerator.type"
_GENERATOR_CLASS = "hoodie.table.keygenerator.class"
_META_FIELDS = "hoodie.populate.meta.fields"
_ZONE = "hoodie.table.timeline.timezone"
_CREATE_SCHEMA = "hoodie.table.create.schema"
_DELETES = tuple(f"{place}hoodie.payload.delete." for place in ("", "hoodie.record.merge.property."))

_KNOWN: Mapping[str, frozenset[str]] = {
    TABLE_TYPE: frozenset({MERGE_ON_READ, "COPY_ON_WRITE"}),
    _MERGE_MODE: frozenset({_EVENT_TIME, "COMMIT_TIME_ORDERING", "CUSTOM"}),
    LAYOUT: frozenset({"0", "1", "2"}),
    _META_FIELDS: frozenset({"TRUE", "FALSE"}),
    _ZONE: frozenset({"LOCAL", "UTC"}),
}
"""The only values that Hudi knows, in capitals."""

_BEGUN: Mapping[str, frozenset[str]] = {
    VERSION: frozenset({"6", "8", "9"}),
    BASE_FILE_FORMAT: frozenset({"PARQUET", "ORC", "HFILE", "HOODIE_LOG", "LANCE"}),
    _GENERATOR_TYPE: frozenset({"SIMPLE", "COMPLEX", "TIMESTAMP", "CUSTOM", "NON_PARTITION", "GLOBAL_DELETE"}),
}
"""Values of keys that may have others in a later release. A beginning of one of these is none of them."""

_BY_A_PERSON = (
    TABLE_TYPE,
    _RECORD_KEY,
    PARTITION_FIELDS,
    BASE_FILE_FORMAT,
    _META_FIELDS,
    _ZONE,
    _MERGE_MODE,
    _ORDERING_FIELDS,
    _PRECOMBINE,
    _GENERATOR_TYPE,
    _GENERATOR_CLASS,
)
"""What Hudi never changes while the table's version stays."""

_FOREVER = frozenset({TABLE_TYPE, _RECORD_KEY, PARTITION_FIELDS, BASE_FILE_FORMAT, _META_FIELDS, _ZONE})
"""What Hudi does not change with the version either. It may add types to the partition fields (`p:SIMPLE`)."""

_NOT_WHOLE = " (not whole)"
_COME_AND_GO = ("hoodie.table.metadata.partitions", "hoodie.table.checksum")
_ORDERED_BY_COMMIT_TOO = ("EventTimeAvroPayload", "PartialUpdateAvroPayload")
"""Flink's payloads. With them a table without ordering fields has EVENT_TIME_ORDERING, too (read, `StreamerUtil`)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Damage:
    """What is wrong with the file: the keys that it `lacks`, and what it `says` amiss (`key=value`). `has_backup`: the
    backup is sound.
    """

    lacks: Sequence[str] = ()
    says: Sequence[str] = ()
    has_backup: bool = False

    def __bool__(self) -> bool:
        """Whether anything is wrong."""
        return bool(self.lacks or self.says)


def damage(
    values: Mapping[str, str], backup: Mapping[str, str] | None = None, *, has_partitions: bool = False
) -> Damage:
    """Return what is wrong with a file of these values. `backup` are those of its backup, if that names a table.
    `has_partitions`: the table has folders of partitions, although it names no partition fields.
    """
    if backup and damage(backup):
        backup = None  # it broke off itself: Hudi copies the file first
    if backup and not values:
        return Damage(lacks=("every line",), has_backup=True)
    lacks = {*_due(values, has_partitions=has_partitions), *_lost(values, backup or {})}
    says = dict((*_unknown(values), *_no_columns(values), *_other(values, backup or {})))
    pairs = tuple(sorted(f"{key}={values[key][:60]}{more}" for key, more in says.items()))
    return Damage(lacks=tuple(sorted(lacks)), says=pairs, has_backup=bool(backup))


def may_miss_partition_fields(values: Mapping[str, str]) -> bool:
    """Whether the table names no partition fields, and its key generator may need some."""
    generator = values.get(_GENERATOR_TYPE) or values.get(_GENERATOR_CLASS) or ""
    return not values.get(PARTITION_FIELDS) and "NONPARTITION" not in generator.upper().replace("_", "")


def _due(values: Mapping[str, str], *, has_partitions: bool) -> Iterator[str]:
    """Yield what the file must have and has not."""
    version = counted(values.get(VERSION, "")) or 0
    if VERSION not in values and values.get(LAYOUT) == "2":
        yield VERSION
    if version >= FIRST_VERSION_OF_LAYOUT_2 and LAYOUT not in values:
        yield LAYOUT
    if version >= FIRST_VERSION_OF_LAYOUT_2 and values.get(TABLE_TYPE) == MERGE_ON_READ:
        if _MERGE_MODE not in values:
            yield _MERGE_MODE
        elif values[_MERGE_MODE] == _EVENT_TIME and _has_no_order(values):
            yield _PRECOMBINE if version == FIRST_VERSION_OF_LAYOUT_2 else _ORDERING_FIELDS
    if has_partitions and may_miss_partition_fields(values):
        yield PARTITION_FIELDS
    for key in _DELETES:
        missing = [f"{key}{part}" for part in ("field", "marker") if not values.get(f"{key}{part}")]
        yield from missing if len(missing) == 1 else ()


def _has_no_order(values: Mapping[str, str]) -> bool:
    """Whether the table names no ordering fields, although it was made with some."""
    payload = values.get("hoodie.table.legacy.payload.class") or values.get("hoodie.compaction.payload.class") or ""
    named = values.get(_ORDERING_FIELDS) or values.get(_PRECOMBINE)
    return not named and not payload.endswith(_ORDERED_BY_COMMIT_TOO)


def _lost(values: Mapping[str, str], backup: Mapping[str, str]) -> Iterator[str]:
    """Yield what the backup has and the file has not. A change of the version takes keys away. The last key of a backup
    that broke off may be the beginning of one.
    """
    half = {key for key in list(backup)[-1:] if not backup[key]}
    for key in backup.keys() - values.keys() - half:
        if key in _FOREVER or (_is_of_the_same_version(values, backup) and not key.startswith(_COME_AND_GO)):
            yield key


def _unknown(values: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the keys with a value that Hudi does not know."""
    for key, words in _KNOWN.items():
        if key in values and values[key].upper() not in words:
            yield key, _NOT_WHOLE
    for key, words in _BEGUN.items():
        value = values.get(key, "?").upper()
        if value not in words and any(word.startswith(value) for word in words):
            yield key, _NOT_WHOLE


def _no_columns(values: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the keys with a last field that is the beginning of a column's name, and no column. The schema that is
    given may be older than the table, so that other columns are missing in it.
    """
    if _CREATE_SCHEMA not in values:
        return
    try:
        columns = {str(field["name"]).lower() for field in from_json(values[_CREATE_SCHEMA].encode())["fields"]}
    except (DamagedError, KeyError, TypeError):
        yield _CREATE_SCHEMA, _NOT_WHOLE
        return
    for key in (_ORDERING_FIELDS, _PRECOMBINE, _RECORD_KEY, PARTITION_FIELDS):
        last = re.split(r"[:.]", values.get(key, "").rsplit(",", 1)[-1])[0].strip().lower()
        if values.get(key) and last not in columns and any(column.startswith(last) for column in columns):
            yield key, _NOT_WHOLE


def _other(values: Mapping[str, str], backup: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the keys with another value than the backup has, where only a person changes it. What the file has beyond
    the backup's value was not cut off.
    """
    same = _is_of_the_same_version(values, backup)
    for key in _BY_A_PERSON if same else _FOREVER - {PARTITION_FIELDS}:
        if key in values and key in backup and not values[key].startswith(backup[key]):
            yield key, f" (the backup: {backup[key][:60]})"


def _is_of_the_same_version(values: Mapping[str, str], backup: Mapping[str, str]) -> bool:
    return values.get(VERSION) in {None, "", backup.get(VERSION)}
