"""Sources of tables: the parts of a catalog that patterns of the configuration name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from fnmatch import fnmatchcase

from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.table import Table
from lakewarden.planners.ports import Listing
from lakewarden.planners.storage import Storages
from lakewarden.service.config.assembly import Discover
from lakewarden.service.config.settings import TABLE_ID
from lakewarden.service.model.found import Found


def sources_of(discover: Sequence[Discover], storages: Storages) -> Sequence[CatalogSource]:
    """Return a source for each catalog: one listing serves all of its entries, and the first that fits counts."""
    catalogs = dict.fromkeys(entry.catalog.name for entry in discover)
    return [CatalogSource([entry for entry in discover if entry.catalog.name == name], storages) for name in catalogs]


class CatalogSource:
    """The tables of one catalog that fit a pattern. For any thread."""

    def __init__(self, entries: Sequence[Discover], storages: Storages) -> None:
        """All entries are of one catalog."""
        self._entries = entries
        self._catalog = entries[0].catalog
        self._storage = storages.of(entries[0].any_table.location)

    @property
    def name(self) -> str:
        """Return the catalog's name."""
        return self._catalog.name

    @property
    def every(self) -> timedelta:
        """Return how often the catalog is asked: as often as the entry says that asks most often."""
        return min(entry.every for entry in self._entries)

    def find(self) -> Found:
        """Return the tables, by name, the namespaces that cannot be listed, and what cannot be registered.

        Raises PermanentError and TemporaryError, as the catalog's format does.
        """
        known = self._catalog.format.tables_in(self._catalog.name, self._catalog.settings, self._storage)
        tables, refused = [], dict(known.refused)
        for identifier in sorted(known.tables):
            entry = next((entry for entry in self._entries if _fits(identifier, entry)), None)
            try:
                if entry is not None:
                    tables.append(_registrable(identifier, entry, known))
            except PermanentError as wrong:
                refused[identifier] = str(wrong)
        unlisted = {f"{self.name}.{namespace}".rstrip("."): why for namespace, why in known.unlisted.items()}
        return Found(tables=tables, unlisted=unlisted, refused=refused)


def _fits(identifier: str, entry: Discover) -> bool:
    return fnmatchcase(identifier, entry.tables) and not any(
        fnmatchcase(identifier, pattern) for pattern in entry.exclude
    )


def _registrable(identifier: str, entry: Discover, known: Listing) -> Table:
    """Return the table. Raises PermanentError where its name is no id, or it cannot be looked after like this."""
    table = entry.table(identifier, location=known.locations.get(identifier))
    if re.fullmatch(TABLE_ID, table.id) is None:
        raise PermanentError("its name cannot be a table's id: list it under tables, with an id")
    for wrong in entry.catalog.format.contradictions(table):
        if not wrong.holds_back:
            raise PermanentError(f"{wrong.key} {wrong.reason}")
    return table
