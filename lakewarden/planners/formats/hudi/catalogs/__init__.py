"""Where Hudi tables are found: below a path, by a pattern."""

from __future__ import annotations

from lakewarden.planners.formats.hudi.catalogs.paths import tables_below
from lakewarden.planners.formats.hudi.catalogs.settings import Catalog, PathsCatalog

__all__ = ["Catalog", "PathsCatalog", "tables_below"]
