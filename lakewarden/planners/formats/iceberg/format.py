"""Apache Iceberg as a TableFormat: the metadata of format versions 1 to 3 becomes a TableView, without a JVM."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from lakewarden.planners.formats.iceberg.catalogs.pointers import Pointer, Pointers
from lakewarden.planners.formats.iceberg.catalogs.reports import HOOK
from lakewarden.planners.formats.iceberg.catalogs.settings import Access, Catalog, RestCatalog, shared_name
from lakewarden.planners.formats.iceberg.catalogs.vended.storage import VendedFiles
from lakewarden.planners.formats.iceberg.deletion.reachable import misread
from lakewarden.planners.formats.iceberg.metadata.files import VanishedError
from lakewarden.planners.formats.iceberg.observing import observed, plans_token
from lakewarden.planners.formats.iceberg.options.service_options import (
    Age,
    ArchiveOptions,
    CleanOptions,
    ClusteringOptions,
    CompactionOptions,
    OrphansOptions,
    RewriteOptions,
    TableStatsOptions,
    least_age_of_orphans,
    least_age_of_snapshots,
)
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions, options_of
from lakewarden.planners.formats.iceberg.writers.cold import awaited
from lakewarden.planners.formats.iceberg.writers.writer_options import ENGINES, writer_options
from lakewarden.planners.formats.shared_folder import SharedFolders
from lakewarden.planners.hooks import CommitHook
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
from lakewarden.planners.settings import Settings, format_duration, format_size
from lakewarden.planners.storage.content import StoreRefusedError
from lakewarden.planners.storage.locations import named_in_catalog
from lakewarden.planners.triggers import Trigger

# Settings of one table that contradict each other.


def contradictions(table: Table) -> Iterator[Contradiction]:
    """Yield each key that has to change, the reason, and the value to set."""
    options = options_of(table)
    if (why := misread(options.readers)) is not None:
        yield Contradiction(key="options.readers", reason=why)
    for service, policy in table.policies.items():
        match policy.options:
            case CleanOptions() as clean:
                pairs = _of_clean(clean, options)
            case OrphansOptions() as orphans:
                pairs = _of_orphans(orphans, options)
            case RewriteOptions() as rewrite:
                pairs = _of_rewrite(rewrite)
            case _:
                continue
        yield from (Contradiction(key=f"services.{service}.options.{key}", reason=reason) for key, reason in pairs)


_Found = Iterator[tuple[str, str]]


def _of_clean(clean: CleanOptions, options: IcebergTableOptions) -> _Found:
    least = least_age_of_snapshots(options)
    if clean.max_snapshot_age is not None and clean.max_snapshot_age < least.age:
        yield "max_snapshot_age", _too_young("max_snapshot_age", clean.max_snapshot_age, least)


def _of_orphans(orphans: OrphansOptions, options: IcebergTableOptions) -> _Found:
    least = least_age_of_orphans(options)
    if orphans.older_than is not None and orphans.older_than < least.age:
        yield "older_than", _too_young("older_than", orphans.older_than, least)


def _too_young(key: str, age: timedelta, least: Age) -> str:
    return f"{format_duration(age)} is less than {least}. Raise {key}{least.or_lower}"


def _of_rewrite(rewrite: RewriteOptions) -> _Found:
    """Yield what Iceberg's planner refuses (`SizeBasedFileRewritePlanner.sizeThresholds`)."""
    smallest, target, largest = rewrite.min_file_size, rewrite.target_file_size, rewrite.max_file_size
    if smallest is not None and target is not None and smallest >= target:
        yield "min_file_size", f"{format_size(smallest)} is not less than target_file_size: set less than that"
    if largest is not None and target is not None and largest <= target:
        yield "max_file_size", f"{format_size(largest)} is not more than target_file_size: set more than that"
    if target is None and smallest is not None and largest is not None and smallest >= largest:
        yield "min_file_size", f"{format_size(smallest)} is not less than max_file_size: set less than that"


_NUMBERED = re.compile(r"v\d+(?:\.gz)?\.metadata\.json(?:\.gz)?")
_METADATA = re.compile(rf"\d+-[0-9a-f-]{{36}}.*\.metadata\.json(?:\.gz)?|{_NUMBERED.pattern}")

TIMEOUT = timedelta(seconds=20)
"""How long one attempt of an observation reads manifests. There is a second attempt if the table changes meanwhile.
Both fit into `reading.deadline`."""


class IcebergFormat:
    """Observes Iceberg tables.

    The token comes from the catalog. An observation reads the metadata file and the manifest list. If a policy of the
    table depends on its files, it also reads the manifests that were not read before.
    """

    name = "iceberg"
    table_options: type[Settings] = IcebergTableOptions
    catalog_settings: Any = Catalog
    services: Mapping[Service, type[Settings]] = {
        Service.COMPACTION: CompactionOptions,
        Service.CLUSTERING: ClusteringOptions,
        Service.CLEAN: CleanOptions,
        Service.ORPHANS: OrphansOptions,
        Service.ARCHIVE: ArchiveOptions,
        Service.TABLE_STATS: TableStatsOptions,
    }
    trigger_strategies: Mapping[str, Callable[[Any], Trigger]] = {}
    commit_hook: CommitHook | None = HOOK
    writer_engines: tuple[WriterEngine, ...] = ENGINES
    first_services: tuple[Service, ...] = (Service.COMPACTION, Service.CLEAN, Service.ORPHANS, Service.ARCHIVE)
    sign: Sign | None = Sign(folder="metadata", file=_METADATA, by_path=_NUMBERED)

    def __init__(self) -> None:
        self._pointers = Pointers()
        self._vended = VendedFiles(self._pointers)
        self._shared = SharedFolders(self.name)

    def tables_in(self, catalog: str, settings: Any, storage: Storage) -> Listing:
        """Return the identifiers of the catalog's tables, as the catalog spells them."""
        return self._pointers.tables(catalog, settings, storage)

    def contradictions(self, table: Table) -> Sequence[Contradiction]:
        """Yield the policies that would delete what a writer may still need, and the settings that contradict each
        other.
        """
        return tuple(contradictions(table))

    def shared_name(self, catalog: str, settings: Any, identifier: str) -> str:
        """Return a name that is the same for every address of the table: its folder if the warehouse is a folder, else
        its name under the address of the server.
        """
        return shared_name(catalog, settings, identifier)

    def as_found(self, table: Table, identifier: str) -> Table:
        """Return the table as it is."""
        return table

    def writer_options(
        self, table: Table, *, engine: WriterEngine, hook_url: str, lock_held: timedelta | None = None
    ) -> Sequence[WriterOption]:
        """Return the options with which a writer can commit beside Lakewarden, and the options that report its
        commits.
        """
        return writer_options(table, engine=engine, hook_url=hook_url)

    def token(self, table: Table, storage: Storage) -> str:
        """Return a text that changes with the table's current metadata file and with Lakewarden's plans beside the
        table.
        """
        storage = self._vended.of(table, storage)
        with _blocked_by_name(table):
            return self._pointer_and_token(table, storage)[1]

    def observe(self, table: Table, storage: Storage, previous: Observation | None, *, now: datetime) -> Observation:
        """Return the observation of the table.

        If the token stays equal, the view stays valid until time alone changes what is due. A view with faults is not
        kept. If a commit or an expiry deletes a file during the observation, the table is observed once more.
        """
        storage = self._vended.of(table, storage)
        with _blocked_by_name(table):
            return self._observed(table, storage, previous, now=now)

    def _observed(self, table: Table, storage: Storage, previous: Observation | None, *, now: datetime) -> Observation:
        pointer, token = self._pointer_and_token(table, storage)
        look = partial(observed, table, storage, shared=self._shared, now=now, timeout=TIMEOUT)
        try:
            observation = look(previous, pointer=pointer, token=token)
            previous = observation  # the second attempt does not read again what this one has read
        except VanishedError:
            observation = None
        if observation is None or observation.view.faults:
            moved, token = self._pointer_and_token(table, storage)
            if observation is None or moved != pointer:
                return look(previous, pointer=moved, token=token)
        return observation

    def _pointer_and_token(self, table: Table, storage: Storage) -> tuple[Pointer, str]:
        pointer = self._pointers.of(table, storage)
        return pointer, pointer.token + plans_token(table, pointer.metadata_file, storage)

    def endangered(self, view: TableView, service: Service, *, step: Step, instant: str | None) -> tuple[Instant, ...]:
        """Return none: no write is visible before its commit. Three things protect writers: `awaited`, the partitions
        that are left alone, and the conflict check of the commit.
        """
        return ()

    def awaited(self, view: TableView, service: Service, *, step: Step, instant: str | None) -> str | None:
        """Return why `service` should wait before `step`: the distance to Lakewarden's last commit."""
        return awaited(view, service, step=step)


@contextlib.contextmanager
def _blocked_by_name(table: Table) -> Iterator[None]:
    """If the store refuses access, name the access that a REST catalog may offer."""
    try:
        yield
    except StoreRefusedError as refused:
        if not isinstance(table.catalog, RestCatalog) or table.catalog.access is Access.VENDED:
            raise  # with vended credentials its message names the catalog
        catalog, _ = named_in_catalog(table.location)
        raise StoreRefusedError(
            f"{refused}: add an entry for that bucket under storage, or set catalogs.{catalog}.access: vended if "
            "the catalog hands out credentials to the table's files"
        ) from refused


ICEBERG = IcebergFormat()
