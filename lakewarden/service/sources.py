"""Sources of tables: the part of a catalog that a pattern of the configuration names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from fnmatch import fnmatchcase

import structlog

from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.table import Table
from lakewarden.planners.ports import Storage
from lakewarden.service.config.assembly import Discover
from lakewarden.service.config.settings import TABLE_ID
from lakewarden.service.discovery import Found

log = structlog.get_logger(__name__)


class CatalogSource:
    """The tables of one catalog that fit a pattern. For any thread."""

    def __init__(self, discover: Discover, storage: Storage) -> None:
        self._discover = discover
        self._storage = storage
        self._told: set[str] = set()

    @property
    def name(self) -> str:
        """Return the catalog and the pattern."""
        return f"{self._discover.catalog.name}: {self._discover.tables}"

    @property
    def every(self) -> timedelta:
        """Return how often the catalog is asked."""
        return self._discover.every

    def find(self) -> Found:
        """Return the tables, by name, and the namespaces that cannot be listed.

        Raises PermanentError and TemporaryError, as the catalog's format does.
        """
        catalog = self._discover.catalog
        known = catalog.format.tables_in(catalog.name, catalog.settings, self._storage)
        fitting = (identifier for identifier in sorted(known.tables) if self._fits(identifier))
        unlisted = {f"catalog://{catalog.name}/{namespace}.": why for namespace, why in known.unlisted.items()}
        return Found(tables=tuple(self._registrable(fitting)), unlisted=unlisted)

    def _fits(self, identifier: str) -> bool:
        wanted, unwanted = self._discover.tables, self._discover.exclude
        return fnmatchcase(identifier, wanted) and not any(fnmatchcase(identifier, pattern) for pattern in unwanted)

    def _registrable(self, identifiers: Iterator[str]) -> Iterator[Table]:
        """Yield the tables that can be registered: a name that is no id is told of once."""
        for identifier in identifiers:
            try:
                table = self._discover.table(identifier)
            except PermanentError:
                table = None
            if table is not None and re.fullmatch(TABLE_ID, table.id):
                yield table
            elif identifier not in self._told:
                self._told.add(identifier)
                log.warning("cannot_be_registered", catalog=self._discover.catalog.name, table=identifier)
