"""Apache Hudi as a TableFormat: the metadata of table versions 6, 8 and 9 becomes a TableView, without a JVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from lakewarden.planners.formats.hudi.backlog.needs import needs_commits
from lakewarden.planners.formats.hudi.catalogs import Catalog, as_found, tables_in
from lakewarden.planners.formats.hudi.contradictions import contradictions
from lakewarden.planners.formats.hudi.metadata.table_properties import CLAIM, HOME
from lakewarden.planners.formats.hudi.metadata.tokens import Tokens
from lakewarden.planners.formats.hudi.observing import observed
from lakewarden.planners.formats.hudi.options.service_options import (
    ArchiveOptions,
    CatalogSyncOptions,
    CleanOptions,
    ClusteringOptions,
    CompactionOptions,
    IndexingOptions,
    LogCompactionOptions,
    MetadataRebuildOptions,
    NoOptions,
    RollbackOptions,
    SavepointOptions,
    TtlOptions,
)
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.formats.hudi.writers.acquisitions.around import around
from lakewarden.planners.formats.hudi.writers.endangered import awaited, endangered_writes
from lakewarden.planners.formats.hudi.writers.writer_options import writer_options
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Instant, Service
from lakewarden.planners.model.table import Table
from lakewarden.planners.model.view import TableView
from lakewarden.planners.ports import Contradiction, Listing, Observation, Storage, WriterEngine, WriterOption
from lakewarden.planners.settings import Settings, shown


class HudiFormat:
    """Reads `.hoodie`: two stats for a token; for an observation the properties, a listing of the timeline (of the
    heartbeats too while something is pending) and of its metadata table, and those payloads that were not read before.
    What completed commits wrote is read where a policy of the table asks for it, or always if it is `thorough`.
    """

    def __init__(self, *, thorough: bool = False) -> None:
        self._thorough = thorough
        self._tokens = Tokens()

    @property
    def name(self) -> str:
        """Return `hudi`."""
        return "hudi"

    @property
    def table_options(self) -> type[Settings]:
        """Return the type of a Hudi table's options."""
        return HudiTableOptions

    @property
    def catalog_settings(self) -> Any:
        """Return the type of the catalogs that its tables may be found in."""
        return Catalog

    def tables_in(self, catalog: str, settings: Any, storage: Storage) -> Listing:
        """Return the tables that the catalog finds, with their locations: no Hudi table is known by a name alone."""
        return tables_in(catalog, settings, storage)

    @property
    def services(self) -> Mapping[Service, type[Settings]]:
        """Return what Hudi's own client can do for a table, with the types of the options."""
        return {
            Service.COMPACTION: CompactionOptions,
            Service.LOG_COMPACTION: LogCompactionOptions,
            Service.CLUSTERING: ClusteringOptions,
            Service.CLEAN: CleanOptions,
            Service.ARCHIVE: ArchiveOptions,
            Service.ROLLBACK: RollbackOptions,
            Service.TTL: TtlOptions,
            Service.INDEXING: IndexingOptions,
            Service.SAVEPOINT: SavepointOptions,
            Service.CATALOG_SYNC: CatalogSyncOptions,
            Service.METADATA_VALIDATION: NoOptions,
            Service.METADATA_REBUILD: MetadataRebuildOptions,
        }

    def contradictions(self, table: Table) -> Sequence[Contradiction]:
        """Return a lock that is missing or cannot work where the table is, an archive that takes a clean's commits, and
        keys that are not the user's to set. Where a table that is yet to be found will be, is not known.
        """
        return tuple(contradictions(table))

    def shared_name(self, catalog: str, settings: Any, identifier: str) -> str:
        """Raise PermanentError: a Hudi table is known by its path, whoever found it."""
        raise PermanentError(
            f"a hudi table is named by its path: the catalog {shown(catalog)} is for discover, which finds {identifier}"
        )

    def as_found(self, table: Table, identifier: str) -> Table:
        """Return the table with its place in the catalog that knows it, for what tells that catalog of changes."""
        return as_found(table, identifier)

    def writer_options(
        self, table: Table, *, engine: WriterEngine, hook_url: str, worst_hold: timedelta | None = None
    ) -> Sequence[WriterOption]:
        """Return the lock, multi-writer mode, the commit callback, and the services that are Lakewarden's."""
        return writer_options(table, engine=engine, hook_url=hook_url, worst_hold=worst_hold)

    def claim_location(self, table: Table) -> str | None:
        """Return a file in a folder of its own below `.hoodie`, in which no release of Hudi looks (docs/hudi.md)."""
        return f"{table.location}/{HOME}/{CLAIM}"

    def token(self, table: Table, storage: Storage) -> str:
        """Return the version of its properties and the stamp of its timeline's folder, wherever they say it is."""
        return self._tokens.of(table.location, storage)

    def observe(self, table: Table, storage: Storage, previous: Observation | None, *, now: datetime) -> Observation:
        """Return the table's view.

        An equal token vouches for it until the next heartbeat that guards something pending runs out; not at all
        if it has faults, its newest change is younger than two seconds, or a pending write has no heartbeat: that
        comes a moment after the write's first file, into a folder that the token does not watch.
        """
        commits = self._thorough or needs_commits(table)

        def look() -> Observation:
            return observed(table, storage, previous, token=self.token(table, storage), commits=commits, now=now)

        return around(table, storage, look)

    def endangered(self, view: TableView, service: Service, *, step: str, instant: str | None) -> tuple[Instant, ...]:
        """Return the writes in flight that would fail if `service` now took `step`."""
        return endangered_writes(view, service, step=step, instant=instant)

    def awaited(self, view: TableView, service: Service, *, step: str, instant: str | None) -> str | None:
        """Return what `service` had better wait for before it takes `step`."""
        return awaited(view, service, step=step, instant=instant)


HUDI = HudiFormat()

THOROUGH = HudiFormat(thorough=True)
"""For whoever has to know what each commit wrote, whatever the table's policies ask for."""
