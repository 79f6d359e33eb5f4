"""A table's metadata file, in the terms of Iceberg's table spec (format versions 1 to 3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from lakewarden.planners.decoding.json_stream import ArrayContent, counted
from lakewarden.planners.formats.iceberg.metadata.schemas import DroppedColumn
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.view import TableIdentity

MAIN = "main"


class CorruptMetadataError(PermanentError):
    """The file is no metadata file, or is not whole."""


class UnusableFileError(CorruptMetadataError):
    """The file may be sound, and Lakewarden cannot use it. The message has the remedy."""


class BrokenOffError(CorruptMetadataError):
    """The metadata file ends too early. Its writer was killed, and the file is no version of the table."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """One snapshot. `operation` is `append`, `replace`, `overwrite` or `delete`. `summary` has only the entries that
    Lakewarden uses: its own, Flink's, and counts of files. Counts are texts, as Iceberg writes them. `manifest_list` is
    None for the oldest tables of version 1, which list their manifests in the metadata file. `schema` is the id of the
    schema at that time. It is None if the snapshot does not say.
    """

    id: int
    parent: int | None
    sequence: int
    at: datetime
    operation: str
    summary: Mapping[str, str]
    manifest_list: str | None
    schema: int | None = None

    def count(self, key: str) -> int:
        """Return a count of the summary. It is 0 if the summary does not have it."""
        return counted(self.summary.get(key, "0")) or 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Ref:
    """A branch or a tag, and the retention that it sets."""

    name: str
    is_branch: bool
    snapshot: int
    min_snapshots_to_keep: int | None = None
    max_snapshot_age: timedelta | None = None
    max_ref_age: timedelta | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PartitionField:
    """One field of a partition spec. `field_id` is its key in the manifests of every engine. `source` is the type of
    its column, or empty if no schema has the column any more.
    """

    field_id: int
    name: str
    transform: str
    source: str = ""


class Told(NamedTuple):
    """What was read of a metadata file and will most likely be the same in the next version: its snapshots, with the
    content from which they were read, and the content of the snapshot log. `main` has main's snapshots once they were
    asked for.
    """

    content: ArrayContent | None
    log: ArrayContent | None
    snapshots: tuple[Snapshot, ...]
    main: Sequence[MainLine] = ()


class MainLine(NamedTuple):
    """Main's head and its ancestors, the newest first: `every` one, the writes, and the maintenance (`replace`)."""

    every: tuple[Snapshot, ...]
    writes: tuple[Snapshot, ...]
    maintenance: tuple[Snapshot, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TableMetadata:
    """One version of a table.

    `file` is where it was read from, `location` the table's folder as its writers spell it. `snapshots` are in the
    order of the file, `sequence` is the last sequence number (0 in version 1). `metadata_log` are the earlier metadata
    files that this one names, `statistics_of` the Puffin and partition statistics files of each snapshot that has some.
    `schemas` are the ids of all.
    `types` are those of the current schema's columns and of what they are made of, without parameters:
    `{"long", "decimal", "list"}`. `has_keys`: it has keys of encryption, which other keys protect (version 3).
    `size` are the bytes of the metadata file, inflated.
    `has_identifier`: a schema names the columns that identify a row, by which jobs update and delete.
    `dropped`: columns that the current schema does not have, by field id.
    """

    file: str
    format_version: int
    uuid: str
    location: str
    updated_at: datetime
    properties: Mapping[str, str]
    snapshots: tuple[Snapshot, ...]
    current: int | None
    refs: tuple[Ref, ...]
    specs: Mapping[int, tuple[PartitionField, ...]]
    default_spec: int
    sort_order: int
    sequence: int = 0
    metadata_log: tuple[str, ...] = ()
    statistics_of: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    schemas: frozenset[int] = frozenset()
    types: frozenset[str] = frozenset()
    has_keys: bool = False
    has_identifier: bool = False
    dropped: Mapping[int, DroppedColumn] = field(default_factory=dict)
    size: int = 0
    by_id: Mapping[int, Snapshot] = field(default_factory=dict, repr=False, compare=False)
    told: Told | None = field(default=None, repr=False, compare=False)
    known_main: MainLine | None = field(default=None, repr=False, compare=False)
    main: list[MainLine] = field(default_factory=list, repr=False, compare=False)

    @property
    def current_snapshot(self) -> Snapshot | None:
        """Return the snapshot that readers see. None for a table without one."""
        return None if self.current is None else self.by_id.get(self.current)

    def ancestors(self, snapshot: int | None) -> tuple[Snapshot, ...]:
        """Return a snapshot and its ancestors, the newest first, as far as they are not expired."""
        return tuple(self._lineage(snapshot)) if snapshot != self.current else self._main_line().every

    def writes(self) -> tuple[Snapshot, ...]:
        """Return the writes to main, the newest first. A `replace` is maintenance, and not a write."""
        return self._main_line().writes

    def maintenance(self) -> tuple[Snapshot, ...]:
        """Return the snapshots of main that changed no row, the newest first."""
        return self._main_line().maintenance

    def _main_line(self) -> MainLine:
        """Return the snapshots of main. Each of 50,000 is looked at once, and not again in the next version."""
        if not self.main:
            old_line = self.known_main
            if old_line is None or not old_line.every or old_line.every[-1].parent in self.by_id:
                old_line = MainLine((), (), ())
            new = list[Snapshot]()
            for snapshot in self._lineage(self.current):
                if old_line.every and snapshot is old_line.every[0]:
                    break
                new.append(snapshot)
            else:
                old_line = MainLine((), (), ())
            writes = (snapshot for snapshot in new if snapshot.operation != "replace")
            maintenance = (snapshot for snapshot in new if snapshot.operation == "replace")
            self.main.append(
                MainLine((*new, *old_line.every), (*writes, *old_line.writes), (*maintenance, *old_line.maintenance))
            )
        return self.main[0]

    def _lineage(self, snapshot: int | None) -> Iterator[Snapshot]:
        seen = set()
        while snapshot is not None and snapshot not in seen and (ancestor := self.by_id.get(snapshot)) is not None:
            seen.add(snapshot)
            yield ancestor
            snapshot = ancestor.parent


# The identity of an Iceberg table. It changes if the table is dropped and created again.

UNKNOWN = "unknown"


def table_identity(location: str, metadata: TableMetadata) -> TableIdentity:
    """Return the address of the table and its `table-uuid`, which never changes. Tables of format version 1 need not
    have one. Then all tables that were ever at that location count as one.
    """
    return TableIdentity(location=location, created=metadata.uuid or UNKNOWN)


# When a thing is of an age: moments that may lie beyond all calendars. Pure.

FOR_EVER = datetime.max.replace(tzinfo=UTC)
_FIRST = datetime.min.replace(tzinfo=UTC)


def after(age: timedelta) -> Callable[[datetime], datetime]:
    """Return a function from a time to the moment at which that time reaches this age. An age of 292 million years
    means "never", so the moment is `FOR_EVER`.
    """
    if age >= FOR_EVER - _FIRST:
        return lambda _: FOR_EVER
    last = FOR_EVER - age
    return lambda at: at + age if at < last else FOR_EVER


def later(at: datetime, age: timedelta) -> datetime:
    """Return when a time is of this age."""
    return after(age)(at)


# How often a commit is tried again if the table's pointer has moved, and after which pauses.

_RETRIES = ("commit.retry.num-retries", 4)
_FIRST_WAIT = ("commit.retry.min-wait-ms", 100)
_LONGEST = ("commit.retry.max-wait-ms", 60_000)
_TOGETHER = ("commit.retry.total-timeout-ms", 1_800_000)
_MOST = 1000


def waits(properties: Mapping[str, str]) -> Iterator[float]:
    """Yield the seconds to wait before each try, as the table's own properties ask (`TableProperties`). The first is 0.
    Each further pause is twice the one before. Their sum stays below the table's timeout.
    """
    yield 0.0
    retries, first, longest, together = (
        _number(properties, *setting) for setting in (_RETRIES, _FIRST_WAIT, _LONGEST, _TOGETHER)
    )
    waited = 0
    for attempt in range(min(retries, _MOST)):
        pause = min(first * 2 ** min(attempt, 40), longest)
        waited += pause
        if waited > together:
            return
        yield pause / 1000


def _number(properties: Mapping[str, str], key: str, otherwise: int) -> int:
    number = counted(properties.get(key, ""))
    return otherwise if number is None else number
