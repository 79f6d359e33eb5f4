"""Sources of tables: what a catalog or a pattern of paths lists, with the settings that the configuration gives."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.table import Table
from lakewarden.planners.ports import Listing
from lakewarden.planners.storage import Storages
from lakewarden.service.config.layers.patterns import Discover, fitting
from lakewarden.service.config.layers.templates import dotted, legal_beginning
from lakewarden.service.model.found import FoundTables


def sources_of(discover: Sequence[Discover], storages: Storages) -> Sequence[CatalogSource]:
    """Return one source for each catalog, and for each pattern of paths. One listing serves all patterns with the same
    catalog.
    """
    lists = dict.fromkeys(entry.catalog.name for entry in discover)
    return [CatalogSource(name, discover, storages) for name in lists]


class CatalogSource:
    """The tables that one listing shows. The first of all patterns that means a table gives its settings. For any
    thread.
    """

    def __init__(self, name: str, every_entry: Sequence[Discover], storages: Storages) -> None:
        """Take all patterns, in the order of the configuration. Some of them must be of the listing `name`."""
        self.name = name
        self._patterns = [entry.pattern for entry in every_entry]
        self._entries = {id(entry.pattern): entry for entry in every_entry}
        self._own = [entry for entry in every_entry if entry.catalog.name == name]
        self._first = self._own[0]
        self._storages = storages
        self._storage = storages.of(self._first.any_table.location)

    @property
    def every(self) -> timedelta:
        """Return how often the tables are listed: the shortest interval of the patterns."""
        return min(entry.every for entry in self._own)

    def find(self) -> FoundTables:
        """Return the tables by name, the namespaces that cannot be listed, and the tables that cannot be registered.

        Raises PermanentError and TemporaryError, as the format of the catalog does.
        """
        catalog = self._first.catalog
        known = catalog.format.tables_in(catalog.name, catalog.settings, self._storage)
        tables, refused = [], dict(known.refused)
        for identifier in sorted(known.tables):
            location = known.locations.get(identifier)
            id_ = self._first.id_of(identifier, location)
            pattern = fitting(self._patterns, id_, self._first.address_of(identifier, location))
            try:
                if pattern is not None:
                    table = _registrable(identifier, self._entries[id(pattern)], known)
                    self._storages.require(table.location)
                    tables.append(table)
            except PermanentError as wrong:
                refused[identifier] = str(wrong)
        beginning = self._beginning()
        unlisted = {legal_beginning(f"{beginning}.{one}".strip(".")): why for one, why in known.unlisted.items()}
        return FoundTables(tables=tables, unlisted=unlisted, refused=refused)

    def _beginning(self) -> str:
        """Return how the ids of the tables begin."""
        return dotted(self._first.pattern.paths[-1].root) if self._first.by_path else self.name


def _registrable(identifier: str, entry: Discover, known: Listing) -> Table:
    """Return the table. Raises PermanentError if its settings contradict its name or the format."""
    table = entry.table(identifier, location=known.locations.get(identifier))
    for wrong in entry.catalog.format.contradictions(table):
        if not wrong.blocks:
            raise PermanentError(f"{wrong.key} {wrong.reason}")
    return table
