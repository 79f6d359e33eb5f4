"""Where Hudi tables are found: below a path, by a pattern, and in a Hive metastore."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from lakewarden.planners.formats.hudi.catalogs.paths import Catalog, HiveCatalog, PathsCatalog, tables_below
from lakewarden.planners.formats.hudi.options.service_options import catalog_sync_of
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table
from lakewarden.planners.ports import Listing, Storage

__all__ = ["Catalog", "HiveCatalog", "PathsCatalog", "as_found", "tables_in"]


def tables_in(catalog: str, settings: PathsCatalog | HiveCatalog, storage: Storage) -> Listing:
    """Return the tables that a catalog finds, with their locations. Raises TemporaryError and PermanentError."""
    match settings:
        case PathsCatalog():
            return tables_below(settings, storage)
        case HiveCatalog():
            from lakewarden.planners.formats.hudi.catalogs.metastore import tables_known  # noqa: PLC0415 - few need it

            return tables_known(catalog, settings)
        case _:
            assert_never(settings)


def as_found(table: Table, identifier: str) -> Table:
    """Return a table that was found as `database.table`. If its policy of `catalog_sync` names no table, it gets that
    name. If the table was found in a metastore, the policy also gets the address of the metastore. Pure.
    """
    options = catalog_sync_of(table)
    if options is None:
        return table
    database, _, name = identifier.rpartition(".")
    place = {"database": database or None, "table": name}
    if isinstance(table.catalog, HiveCatalog):
        place["uri"] = table.catalog.uri
    named = options.model_copy(update={key: place.get(key) for key in options.lacking})
    policy = replace(table.policies[Service.CATALOG_SYNC], options=named)
    policies = {**table.policies, Service.CATALOG_SYNC: policy}
    return replace(table, policies=policies)
