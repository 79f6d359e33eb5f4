"""Where Hudi tables are found: below a path, by a pattern, and in a Hive metastore."""

from __future__ import annotations

from typing import assert_never

from lakewarden.planners.formats.hudi.catalogs.paths import tables_below
from lakewarden.planners.formats.hudi.catalogs.settings import Catalog, HiveCatalog, PathsCatalog
from lakewarden.planners.ports import Listing, Storage

__all__ = ["Catalog", "HiveCatalog", "PathsCatalog", "tables_in"]


def tables_in(name: str, catalog: PathsCatalog | HiveCatalog, storage: Storage) -> Listing:
    """Return the tables that a catalog finds, with their locations. Raises TemporaryError and PermanentError."""
    match catalog:
        case PathsCatalog():
            return tables_below(catalog, storage)
        case HiveCatalog():
            from lakewarden.planners.formats.hudi.catalogs.metastore import tables_known  # noqa: PLC0415 - few need it

            return tables_known(name, catalog)
        case _:
            assert_never(catalog)
