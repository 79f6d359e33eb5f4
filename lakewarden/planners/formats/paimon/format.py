"""Apache Paimon as a TableFormat: snapshots, schemas and manifests become a TableView, without a JVM."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from lakewarden.planners.formats.by_path import NamedByPath
from lakewarden.planners.formats.paimon.catalogs.places import Places
from lakewarden.planners.formats.paimon.catalogs.settings import (
    Catalog,
    FilesystemCatalog,
    JdbcCatalog,
    folder_in,
    keeps_commits_apart,
    shared_name,
)
from lakewarden.planners.formats.paimon.deletion.orphans_beside import stamp_of
from lakewarden.planners.formats.paimon.metadata.files import VanishedError
from lakewarden.planners.formats.paimon.metadata.heads import Heads
from lakewarden.planners.formats.paimon.observing import observed
from lakewarden.planners.formats.paimon.options.service_options import (
    ArchiveOptions,
    CleanOptions,
    CompactionOptions,
    OrphansOptions,
    PartitionCommitOptions,
    TtlOptions,
    least_age_of_orphans,
)
from lakewarden.planners.formats.paimon.options.table_options import PaimonTableOptions, own_options
from lakewarden.planners.formats.paimon.writers import ENGINES, HOOK, writer_options
from lakewarden.planners.formats.shared_folder import SharedFolders
from lakewarden.planners.hooks import CommitHook
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Instant, Service, Step
from lakewarden.planners.model.table import Table
from lakewarden.planners.model.view import TableView
from lakewarden.planners.ports import (
    Contradiction,
    Listing,
    Observation,
    Sign,
    Storage,
    WriterEngine,
    WriterOption,
)
from lakewarden.planners.settings import Settings, format_duration, shown
from lakewarden.planners.storage.locations import canonical_location, is_in_catalog, named_in_catalog

# Settings of a Paimon table that contradict each other.


def contradictions(table: Table) -> Iterator[Contradiction]:
    """Yield each key that has to change, the reason, and the value to set."""
    least = least_age_of_orphans(own_options(table))
    for service, policy in table.policies.items():
        options = policy.options
        if isinstance(options, OrphansOptions) and options.older_than is not None and options.older_than < least.age:
            lower = "" if least.option is None else f", or lower {least.option} if no writer comes back after so long"
            yield Contradiction(
                key=f"services.{service}.options.older_than",
                reason=f"{format_duration(options.older_than)} is less than {least}. Raise older_than{lower}",
            )
    yield from _holding_back(table)


def _holding_back(table: Table) -> Iterator[Contradiction]:
    """Yield what blocks services on a table that can still be observed."""
    folder = _folder(table)
    if not table.policies or folder is None or keeps_commits_apart(table.catalog, folder):
        return
    yield Contradiction(
        key="path",
        reason=f"every service is Blocked at {shown(folder)}: Lakewarden serves Paimon tables on disks, and on S3 by "
        "their names in a Hive or JDBC catalog, if the writers commit under its lock",
        blocks=True,
    )


def _folder(table: Table) -> str | None:
    """Return the table's folder as far as the configuration tells it. A metastore is not asked."""
    if not is_in_catalog(table.location):
        return table.location
    if not isinstance(table.catalog, FilesystemCatalog | JdbcCatalog):
        return None
    try:
        return folder_in(table.catalog.warehouse, named_in_catalog(table.location)[1])
    except PermanentError:
        return None


TIMEOUT = timedelta(seconds=20)
"""So long a look reads manifests: twice, if the table moves meanwhile, within `reading.deadline`."""

_LOOKS = 3
_MOST_WATCHED = 10_000


class PaimonFormat(NamedByPath):
    """Asks for the newest snapshot for a token; for an observation reads the snapshots, lists and manifests that were
    not read before.
    """

    name = "paimon"
    table_options: type[Settings] = PaimonTableOptions
    services: Mapping[Service, type[Settings]] = {
        Service.ARCHIVE: ArchiveOptions,
        Service.CLEAN: CleanOptions,
        Service.COMPACTION: CompactionOptions,
        Service.ORPHANS: OrphansOptions,
        Service.PARTITION_COMMIT: PartitionCommitOptions,
        Service.TTL: TtlOptions,
    }
    catalog_settings: Any = Catalog
    commit_hook: CommitHook | None = HOOK
    writer_engines: tuple[WriterEngine, ...] = ENGINES
    first_services: tuple[Service, ...] = (Service.COMPACTION, Service.CLEAN, Service.ORPHANS)
    sign: Sign | None = Sign(folder="schema", file=re.compile(r"schema-\d{1,18}"))

    def __init__(self) -> None:
        self._heads = Heads()
        self._places = Places()
        self._shared = SharedFolders(self.name)
        self._watched: dict[str, tuple[str, ...]] = {}

    def tables_in(self, catalog: str, settings: Any, storage: Storage) -> Listing:
        """Return the names of the catalog's tables. They are registered by these names, because commits may need the
        lock of the catalog.
        """
        return self._places.tables(catalog, settings, storage)

    def contradictions(self, table: Table) -> Sequence[Contradiction]:
        """Return an age of orphans that is less than a restored job needs."""
        return tuple(contradictions(table))

    def shared_name(self, catalog: str, settings: Any, identifier: str) -> str:
        """Return the table's folder, if the catalog's settings tell it, else its name under the metastore's address."""
        return shared_name(settings, identifier)

    def writer_options(
        self, table: Table, *, engine: WriterEngine, hook_url: str, lock_held: timedelta | None = None
    ) -> Sequence[WriterOption]:
        """Return what hands the compaction over to Lakewarden, and announces partitions that are done."""
        return writer_options(table, engine=engine, hook_url=hook_url)

    def token(self, table: Table, storage: Storage) -> str:
        """Return the newest snapshot, and what the storage calls this version of its file. With the service orphans
        also the last run of that.
        """
        with self._placed(table) as placed:
            return _full_token(table, placed, self._head(placed, storage)[1])

    def observe(self, table: Table, storage: Storage, previous: Observation | None, *, now: datetime) -> Observation:
        """Return the table's view.

        An equal token vouches for it for five minutes at most, because it shows no change of schemas, tags, branches
        and consumers; not at all if the view has faults. Where a file went away while it was read, because an expiry or
        a rollback was faster, the table is looked at again, three times in all.
        """
        with self._placed(table) as placed:
            sharing = self._shared.of([placed.location], storage, now=now)
            observation = sharing.shown_in(self._observed(placed, storage, previous, now=now), now=now)
            identity = replace(
                observation.view.identity, location=table.location
            )  # as it is registered: shares go by that
            folder = "" if placed is table else canonical_location(placed.location)
            view = replace(observation.view, identity=identity, folder=folder)
            return replace(observation, token=_full_token(table, placed, observation.token), view=view)

    @contextlib.contextmanager
    def _placed(self, table: Table) -> Iterator[Table]:
        """Yield the table with its folder as its location. If there is none, its catalog may have moved it."""
        try:
            yield self._places.placed(table)
        except (PermanentError, FileNotFoundError):
            self._places.forget(table)
            raise

    def _observed(self, table: Table, storage: Storage, previous: Observation | None, *, now: datetime) -> Observation:
        for left in reversed(range(_LOOKS)):
            head, token = self._head(table, storage)
            try:
                observation = observed(table, storage, previous, head=head, token=token, now=now, timeout=TIMEOUT)
            except VanishedError:
                if not left:
                    raise
            else:
                self._learn(table, observation)
                return observation
        raise AssertionError("unreachable")

    def _head(self, table: Table, storage: Storage) -> tuple[int | None, str]:
        """Return the newest snapshot and the token; for a table without a snapshot what its schemas tell."""
        head = self._heads.of(table.location, storage)
        if head is None:
            return None, f"empty.{storage.stamp(f'{table.location}/schema')}"
        stamps = [_version(file, storage) for file in self._watched.get(table.location, ())]
        if Service.ORPHANS in table.policies:
            stamps.append(stamp_of(table.location, storage))
        return head.id, ".".join((head.token, *stamps))

    def _learn(self, table: Table, observation: Observation) -> None:
        """Remember the newest snapshot: a hint may have named an older one as the last before a gap. Remember which
        markers are to be written, too: they are part of the token.
        """
        self._watched.pop(table.location, None)
        if observation.memo.watched and len(self._watched) < _MOST_WATCHED:
            self._watched[table.location] = observation.memo.watched
        newest = observation.view.timeline.instants[-1:]
        for instant in newest:
            self._heads.learn(table.location, int(instant.time))

    def endangered(self, view: TableView, service: Service, *, step: Step, instant: str | None) -> tuple[Instant, ...]:
        """Return none: a write is not visible before its commit, and a compaction fails none that only adds files."""
        return ()

    def awaited(self, view: TableView, service: Service, *, step: Step, instant: str | None) -> str | None:
        """Return None: a write that is not visible cannot be waited for."""
        return None


def _full_token(table: Table, placed: Table, token: str) -> str:
    """Return a token that changes too if the catalog moves the table to another folder."""
    return token if placed is table else f"{token} {placed.location}"


def _version(file: str, storage: Storage) -> str:
    try:
        return storage.version(file)
    except FileNotFoundError:
        return "none"


PAIMON = PaimonFormat()
