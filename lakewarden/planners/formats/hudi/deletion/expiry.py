"""Which partitions are so old that they may be deleted.

Hudi's own strategies are not used (docs/hudi.md). `KeepByTimeStrategy` looks at base files alone. If the rows of a
partition are only updated, in log files, it counts as untouched. From 25 days on its milliseconds overflow.
`KeepByCreationTimeStrategy` reads a commit's time from `.hoodie_partition_metadata`. That file does not change when a
partition is dropped and filled again, so the next run would delete the new rows.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import assert_never

from lakewarden.planners.formats.hudi.metadata.commits import written
from lakewarden.planners.formats.hudi.metadata.names import Action, InstantFiles
from lakewarden.planners.formats.hudi.metadata.payloads import surely_read
from lakewarden.planners.formats.hudi.metadata.properties import HOME, TableProperties
from lakewarden.planners.formats.hudi.metadata.timeline import Known
from lakewarden.planners.formats.hudi.options.service_options import (
    CatalogSyncOptions,
    TtlOptions,
    TtlStrategy,
    catalog_sync_of,
)
from lakewarden.planners.formats.hudi.writers.non_blocking import bears_shared_name
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table
from lakewarden.planners.model.view import Blocker
from lakewarden.planners.ports import MOST_FILES, FileEntry, Storage
from lakewarden.planners.storage.content import listed

_NO_DATA = re.compile(r"\.hoodie_partition_metadata.*|.*\.crc")
"""Files in a partition that are no data. All others make it younger: an unknown format of files must never make rows
look older than they are.
"""

_NEVER = datetime(2000, 1, 1, tzinfo=UTC)  # before it there was no Hudi: the store does not know the time
_AT_ONCE = 32
"""Listings under way at a time. A hundred thousand on S3 take minutes, and an hour one after the other."""

_UNITS = {"%H": timedelta(hours=1), "%d": timedelta(days=1), "%j": timedelta(days=1), "%m": timedelta(days=31)}
_A_YEAR = timedelta(days=366)


@dataclass(frozen=True, kw_only=True, slots=True)
class Partition:
    """A partition's path, the number of its data files and their bytes, and when the oldest and the newest of them were
    written (None: not known).

    They are times of files, not of commits. They include writes in flight, log files and copies. `shares_names`:
    writers without blocking would give a file group in it the same name again.
    """

    path: str
    files: int
    written_at: datetime | None
    created_at: datetime | None
    shares_names: bool = False
    bytes: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Term:
    """When partitions expire: `days` after the moment that the strategy counts from. Paths name times in `zone`."""

    strategy: TtlStrategy
    days: int
    value: str | None = None
    zone: tzinfo = UTC

    @classmethod
    def of(cls, options: TtlOptions, *, zone: tzinfo) -> Term:
        """Return the term that a policy's options ask for."""
        return cls(strategy=options.strategy, days=options.days_retain, value=options.partition_value, zone=zone)

    def may_have_expired(self, path: str, *, now: datetime) -> bool:
        """Whether a partition may have expired, by its path alone. Only such partitions have to be listed."""
        return self.value is None or self._is_over(value_ends_at(path, self.value, self.zone), now)

    def has_expired(self, partition: Partition, *, now: datetime, deleted_before: bool = False) -> bool:
        """Whether a partition has expired. One without files or times never has.

        In a partition that was `deleted_before`, and may have been filled again, the old files remain until a clean.
        They do not show its creation, so its newest file has to be old as well.
        """
        refilled = deleted_before and self.strategy is TtlStrategy.KEEP_BY_CREATION_TIME
        counts_from = partition.written_at if refilled else self._counts_from(partition)
        return partition.files > 0 and self._is_over(counts_from, now)

    def _counts_from(self, partition: Partition) -> datetime | None:
        """Return the moment from which a partition's days count. None if it is not known."""
        match self.strategy:
            case TtlStrategy.KEEP_BY_TIME:
                return partition.written_at
            case TtlStrategy.KEEP_BY_CREATION_TIME:
                return partition.created_at
            case TtlStrategy.KEEP_BY_VALUE:
                return None if self.value is None else value_ends_at(partition.path, self.value, self.zone)
            case _:
                assert_never(self.strategy)

    def _is_over(self, since: datetime | None, now: datetime) -> bool:
        return since is not None and now - since > timedelta(days=self.days)


def value_ends_at(path: str, pattern: str, zone: tzinfo) -> datetime | None:
    """Return when the time in a partition's path has passed, as the day of `dt=2026-01-01`; None if there is none.

    `pattern` is of `strptime`, for the path from its beginning. Levels below those of the pattern do not matter.
    `strptime` reads more than `strftime` writes: letters of either case, digits of any script, days without a leading
    zero. So the path has to be what the pattern writes for the time that was read.
    """
    levels = pattern.count("/") + 1
    try:
        named = "/".join(path.split("/")[:levels])
        begins = datetime.strptime(named, pattern).replace(tzinfo=zone)
        if begins.strftime(pattern) != named:
            return None
        return (begins + next((unit for sign, unit in _UNITS.items() if sign in pattern), _A_YEAR)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def read_partitions(location: str, paths: Iterable[str], storage: Storage) -> Mapping[str, Partition]:
    """List partitions, many at a time. Raises TemporaryError if one cannot be listed whole."""
    wanted = list(paths)
    if not wanted:
        return {}
    with ThreadPoolExecutor(min(_AT_ONCE, len(wanted)), thread_name_prefix="ttl") as threads:
        listings = threads.map(lambda path: read_partition(location, path, storage), wanted)
        return dict(zip(wanted, listings, strict=True))


def read_partition(location: str, path: str, storage: Storage) -> Partition:
    """List one partition. Raises TemporaryError if it cannot be listed whole."""
    return partition_of(path, listed(f"{location}/{path}", storage, most=MOST_FILES))


def confirm_expired(once: Partition, again: Partition) -> None:
    """Raise TemporaryError unless two listings of an expired partition agree. A listing that leaves out the newest
    files makes any partition look old.
    """
    if once != again:
        raise TemporaryError(
            f"two listings of partition {once.path} do not agree: {once.files} data files, then {again.files}"
        )


def partition_of(path: str, entries: Sequence[FileEntry]) -> Partition:
    """Return what a listing of a partition's folder shows."""
    files = [entry for entry in entries if not entry.is_folder and _NO_DATA.fullmatch(entry.name) is None]
    times = [file.modified for file in files]
    has_times = bool(times) and min(times) > _NEVER
    return Partition(
        path=path,
        files=len(files),
        bytes=sum(file.size for file in files),
        written_at=max(times) if has_times else None,
        created_at=min(times) if has_times else None,
        shares_names=any(bears_shared_name(entry.name) for entry in entries),
    )


# Deletions of partitions on the timeline, and which of them the table's catalog knows.
#
# A file beside the table says which deletions the catalog was told. So this is known even if a daemon was killed, or
# has lost its store.

MARK = ".lakewarden/catalog_synced"
"""The file below HOME. It names a place in a catalog, and then line by line the deletions that the catalog knows."""

_OPERATION = "DELETE_PARTITION"
"""`WriteOperationType` of a `replacecommit` that deletes partitions. Its author may be Lakewarden or a writer."""
_LARGEST = 2**20


def read_deletions(
    instants: Iterable[InstantFiles], properties: TableProperties, storage: Storage
) -> Mapping[str, frozenset[str]]:
    """Return the partitions of each completed deletion of a timeline, by its time. Raises TemporaryError if one cannot
    be read.
    """
    partitions = {}
    for instant in instants:
        if instant.action is not Action.REPLACECOMMIT or instant.completed is None:
            continue
        wrote = surely_read(storage, properties.timeline_folder, instant.completed, written)
        if wrote.operation == _OPERATION:
            partitions[instant.time] = frozenset(wrote.partitions)
    return partitions


def told(location: str, options: CatalogSyncOptions, storage: Storage) -> frozenset[str]:
    """Return the times of the deletions that the table's catalog knows at this place. Raises TemporaryError if the
    storage does not answer.
    """
    try:
        place, *times = storage.read(f"{location}/{HOME}/{MARK}", limit=_LARGEST).decode(errors="replace").splitlines()
    # there is none, Lakewarden has not written it, or it is empty
    except (FileNotFoundError, PermanentError, ValueError):
        return frozenset()
    return frozenset(times) if place == place_in(options) else frozenset()


def noted(options: CatalogSyncOptions, times: Collection[str]) -> str:
    """Return the content of the mark."""
    return "\n".join((place_in(options), *sorted(times), ""))


def place_in(options: CatalogSyncOptions) -> str:
    """Return the table's name in its catalog, and the catalog's address, for people and for the mark."""
    return f"{options.database}.{options.table} at {options.uri}"


def untold(table: Table, known_instants: Sequence[Known], storage: Storage) -> frozenset[str]:
    """Return the times of the deletions that the table's catalog does not know and should know. Raises what `told`
    raises.
    """
    options = catalog_sync_of(table)
    if options is None:
        return frozenset()
    written_by = {known.files.time: known.written for known in known_instants if known.written is not None}
    times = frozenset(time for time, wrote in written_by.items() if wrote.operation == _OPERATION)
    return times - told(table.location, options, storage) if times else times


def blockers(untold: Collection[str]) -> tuple[Blocker, ...]:
    """Return what is blocked until the catalog knows a deletion. It could not learn of an archived one."""
    if not untold:
        return ()
    return (
        Blocker(
            services=frozenset({Service.ARCHIVE}),
            code="other_plan_first",
            reason=f"the catalog still lists partitions that {min(untold)} deleted: it is told before an archive",
            remedy="find out why catalog_sync does not tell it, or remove the table's catalog_sync policy",
        ),
    )


def notes(table: Table, untold: Collection[str]) -> Mapping[Service, tuple[str, ...]]:
    """Return what an operator should know of deletions that the catalog does not know."""
    options = catalog_sync_of(table)
    if not untold or options is None:
        return {}
    many = f"and {len(untold) - 1} more " if len(untold) > 1 else ""
    note = f"{place_in(options)} may still list partitions that {min(untold)} {many}deleted"
    return {Service.CATALOG_SYNC: (note,)}
