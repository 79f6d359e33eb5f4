"""What a partition is called: by its values, by its folder, and by the texts that Paimon's client takes. Pure.

Source: `org.apache.paimon.utils.PartitionPathUtils` and `InternalRowPartitionComputer` of Paimon 1.3.1. With
`partition.legacy-name`, as by default, a value is written as Java writes the number or text that it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime

from lakewarden.planners.formats.paimon.backlog.manifests_read import Totals
from lakewarden.planners.formats.paimon.metadata.files import exact_values
from lakewarden.planners.formats.paimon.metadata.manifests import Key, Tally
from lakewarden.planners.formats.paimon.metadata.schemas import Schema
from lakewarden.planners.formats.paimon.options.service_options import PartitionOptions
from lakewarden.planners.formats.paimon.writers import LARGEST, NAME, Done, parse_marker
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.partitions import PartitionTimeOptions, time_of, time_pattern
from lakewarden.planners.ports import Storage
from lakewarden.planners.storage.content import read_ahead

_ESCAPED = frozenset((*map(chr, range(0x20)), *"\"#%'*/:=?\\\x7f{[]^}"))
_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class PartitionName:
    """The names of one partition. `values` are texts that Paimon's client reads as the values of the columns; a date is
    written as `2026-01-31`. `folder` is the path below the table's folder.
    """

    values: Mapping[str, str]
    folder: str


def name_of(row: bytes, schema: Schema) -> PartitionName | None:
    """Return what a partition is called. None if it has an empty value, or one of a type that is not read here."""
    keys, types, options = schema.partition_keys, schema.partition_types, schema.options.partitions
    try:
        values = exact_values(row, types)
    except ValueError:
        return None
    if not keys or any(value is None or not value.strip() or value == options.default_name for value in values):
        return None
    texts = [str(value) for value in values]
    stored = [
        str((date.fromisoformat(text) - _EPOCH).days) if kind == "DATE" and options.legacy_names else text
        for text, kind in zip(texts, types, strict=True)
    ]
    levels = (f"{escaped(key)}={escaped(text)}" for key, text in zip(keys, stored, strict=True))
    return PartitionName(values=dict(zip(keys, texts, strict=True)), folder="/".join(levels))


def escaped(text: str) -> str:
    """Return a text as it stands in the name of a folder."""
    return "".join(f"%{ord(sign):02X}" if sign in _ESCAPED else sign for sign in text)


# The partitions of a table, each with what it holds. Pure.


@dataclass(frozen=True, kw_only=True, slots=True)
class PaimonPartition:
    """One partition: its binary row, its names, and the sums of its files. `name` is None if it cannot be told."""

    row: bytes
    name: PartitionName | None
    held: Mapping[Key, Tally]

    @property
    def files(self) -> int:
        """Return how many data files it has."""
        return sum(tally.files for tally in self.held.values())

    @property
    def bytes(self) -> int:
        """Return how many bytes they have."""
        return sum(tally.bytes for tally in self.held.values())

    @property
    def rows(self) -> int:
        """Return how many rows they have."""
        return sum(tally.rows for tally in self.held.values())

    @property
    def level_0(self) -> int:
        """Return how many files of level 0 it has."""
        return sum(tally.files for (_, _, level), tally in self.held.items() if level == 0)


def partitions_of(totals: Totals, schema: Schema) -> Iterator[PaimonPartition]:
    """Yield the partitions of a table that is partitioned."""
    if not schema.partition_keys:
        return
    by_row: dict[bytes, dict[Key, Tally]] = {}
    for key, tally in totals.items():
        by_row.setdefault(key[0], {})[key] = tally
    for row, held in by_row.items():
        yield PaimonPartition(row=row, name=name_of(row, schema), held=held)


# Reads the markers of partitions: those that are known are not read again.


def marker_file(location: str, partition: PaimonPartition) -> str:
    """Return where the marker of a partition is. Raises PermanentError for one without a name."""
    if partition.name is None:
        raise PermanentError("the folder of a partition cannot be told")
    return f"{location}/{partition.name.folder}/{NAME}"


def read_markers(location: str, partitions: Iterable[PaimonPartition], storage: Storage) -> Mapping[bytes, Done]:
    """Return the markers of partitions that have one. Raises TemporaryError."""
    rows = {marker_file(location, partition): partition.row for partition in partitions if partition.name is not None}
    read = read_ahead(rows, lambda file: _read(file, storage))
    return {rows[file]: done for file, done in read if done is not None}


def _read(file: str, storage: Storage) -> Done | None:
    """Return what a marker says. None if there is none, or if it is no marker of Paimon's."""
    try:
        return parse_marker(storage.read(file, limit=LARGEST))
    except (FileNotFoundError, PermanentError):
        return None


# The time of a partition, by the options of its service, else by those of the table. Pure.


def times_by(own: PartitionTimeOptions, table: PartitionOptions) -> PartitionTimeOptions:
    """Return how the times of partitions are read. Raises ValueError for a formatter of the table that is not read
    here.
    """
    formatter = own.timestamp_formatter or table.timestamp_formatter
    if formatter is not None:
        time_pattern(formatter)
    return PartitionTimeOptions(
        time_zone=own.time_zone,
        timestamp_pattern=own.timestamp_pattern or table.timestamp_pattern,
        timestamp_formatter=formatter,
    )


def time_of_name(name: PartitionName, options: PartitionTimeOptions) -> datetime | None:
    """Return the time of a partition, in UTC; None if its values tell none.

    Of two columns the one with the longer name is looked for first, so that `$dt` is not found in `$dtime`.
    """
    values = name.values
    if options.timestamp_pattern is not None:
        values = {key: values[key] for key in sorted(values, key=len, reverse=True)}
    return time_of(values, options)
