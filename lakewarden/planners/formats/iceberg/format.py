"""Apache Iceberg as a TableFormat: the metadata of format versions 1 to 3 becomes a TableView, without a JVM."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from lakewarden.planners.formats.iceberg.catalogs.pointers import Pointer, Pointers
from lakewarden.planners.formats.iceberg.catalogs.settings import Catalog, shared_name
from lakewarden.planners.formats.iceberg.contradictions import contradictions
from lakewarden.planners.formats.iceberg.metadata.files import VanishedError
from lakewarden.planners.formats.iceberg.observing import observed, plans_token
from lakewarden.planners.formats.iceberg.options.service_options import (
    ArchiveOptions,
    CleanOptions,
    ClusteringOptions,
    CompactionOptions,
    OrphansOptions,
)
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions
from lakewarden.planners.formats.iceberg.writers.distance import awaited
from lakewarden.planners.formats.iceberg.writers.writer_options import writer_options
from lakewarden.planners.model.instant import Instant, Service
from lakewarden.planners.model.table import Table
from lakewarden.planners.model.view import TableView
from lakewarden.planners.ports import Contradiction, Listing, Observation, Storage, WriterEngine, WriterOption
from lakewarden.planners.settings import Settings
from lakewarden.planners.storage.content import StoreRefusedError
from lakewarden.planners.storage.locations import named_in_catalog

PATIENCE = timedelta(seconds=20)
"""So long a look reads manifests: twice, if the table moves meanwhile, within `reading.deadline`."""


class IcebergFormat:
    """Asks the catalog for a token; for an observation reads the metadata file, the manifest list and, where a policy
    of the table asks for its files, those manifests that were not read before.
    """

    def __init__(self) -> None:
        self._pointers = Pointers()

    @property
    def name(self) -> str:
        """Return `iceberg`."""
        return "iceberg"

    @property
    def table_options(self) -> type[Settings]:
        """Return the type of an Iceberg table's options."""
        return IcebergTableOptions

    @property
    def catalog_settings(self) -> Any:
        """Return the type of the catalogs that its tables may be found in."""
        return Catalog

    def tables_in(self, catalog: str, settings: Any, storage: Storage) -> Listing:
        """Return the identifiers of the catalog's tables, as it spells them."""
        return self._pointers.tables(catalog, settings, storage)

    @property
    def services(self) -> Mapping[Service, type[Settings]]:
        """Return what Iceberg's own actions can do for a table, with the types of the options."""
        return {
            Service.COMPACTION: CompactionOptions,
            Service.CLUSTERING: ClusteringOptions,
            Service.CLEAN: CleanOptions,
            Service.ORPHANS: OrphansOptions,
            Service.ARCHIVE: ArchiveOptions,
        }

    def contradictions(self, table: Table) -> Sequence[Contradiction]:
        """Return where a policy would delete what a writer may still need, or asks for what cannot be."""
        return tuple(contradictions(table))

    def shared_name(self, catalog: str, settings: Any, identifier: str) -> str:
        """Return a table's folder in a warehouse that is one; elsewhere its name under the server's own address."""
        return shared_name(catalog, settings, identifier)

    def as_found(self, table: Table, identifier: str) -> Table:
        """Return the table as it is."""
        return table

    def writer_options(
        self, table: Table, *, engine: WriterEngine, hook_url: str, worst_hold: timedelta | None = None
    ) -> Sequence[WriterOption]:
        """Return what lets a writer's commits and ours go beside each other, and where it may report them."""
        return writer_options(table, engine=engine, hook_url=hook_url)

    def claim_location(self, table: Table) -> str | None:
        """Return None: a commit is one exchange of the table's pointer, of which the second of two executors loses, and
        what a run deletes it proves to be needed by nobody, whoever else is at it.
        """
        return None

    def token(self, table: Table, storage: Storage) -> str:
        """Return what the catalog says of the table's current metadata file, and what our plans beside it say."""
        with self._hindered_by_name(table, storage):
            return self._asked(table, storage)[1]

    def observe(self, table: Table, storage: Storage, previous: Observation | None, *, now: datetime) -> Observation:
        """Return the table's view.

        An equal token vouches for it until time alone changes what is due; not at all if it has faults. Where a file
        went away while it was read, because a commit or an expiry was faster, the table is looked at once more.
        """
        with self._hindered_by_name(table, storage):
            return self._observed(table, storage, previous, now=now)

    def _observed(self, table: Table, storage: Storage, previous: Observation | None, *, now: datetime) -> Observation:
        pointer, token = self._asked(table, storage)
        try:
            observation = observed(table, storage, previous, pointer=pointer, token=token, now=now, patience=PATIENCE)
            previous = observation  # what it has read stays read
        except VanishedError:
            observation = None
        if observation is None or observation.view.faults:
            moved, token = self._asked(table, storage)
            if observation is None or moved != pointer:
                return observed(table, storage, previous, pointer=moved, token=token, now=now, patience=PATIENCE)
        return observation

    @contextlib.contextmanager
    def _hindered_by_name(self, table: Table, storage: Storage) -> Iterator[None]:
        """Say of a table whose store lets us not in that its catalog has means for that, of which we make no use."""
        try:
            yield
        except StoreRefusedError as refused:
            means = self._pointers.hands_out(table, storage)
            if means is None:
                raise
            catalog, _ = named_in_catalog(table.location)
            raise StoreRefusedError(
                f"the catalog {catalog} {means}, which Lakewarden does not use: give it credentials of its own, by an "
                f"entry for that bucket under storage ({refused})"
            ) from refused

    def _asked(self, table: Table, storage: Storage) -> tuple[Pointer, str]:
        pointer = self._pointers.of(table, storage)
        return pointer, pointer.token + plans_token(table, pointer.metadata_file, storage)

    def endangered(self, view: TableView, service: Service, *, step: str, instant: str | None) -> tuple[Instant, ...]:
        """Return none: nobody sees a write before it is committed. What keeps off them is told by `awaited`, by the
        partitions that are left alone, and by the commit itself.
        """
        return ()

    def awaited(self, view: TableView, service: Service, *, step: str, instant: str | None) -> str | None:
        """Return what `service` had better wait for before it takes `step`: the distance from our last commit."""
        return awaited(view, service, step=step)


ICEBERG = IcebergFormat()
