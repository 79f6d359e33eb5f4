"""The folders of tables, by which it is known that two registered tables are one.

A configuration with two paths to one folder is refused. The folder of a table that its catalog names is known only from
an observation. It is in the store, so that every replica knows it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import blake2b

from lakewarden.planners.model.decision import Blocked
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.planners.storage.locations import by_place, is_in_catalog
from lakewarden.service.model.rows import FolderRow
from lakewarden.service.rules.registering import registered_twice
from lakewarden.service.state.table_registry import TableRegistry
from lakewarden.service.store.port import Store


class TableFolders:
    """Knows which registered tables of one format lie in one folder. Only the control thread calls it."""

    def __init__(self, *, store: Store, tables: TableRegistry) -> None:
        self._store = store
        self._tables = tables
        self._edition: Mapping[str, TableId] = {}
        self._by_path: Mapping[str, TableId] = {}
        self._rows: dict[TableId, FolderRow] = {}
        self._named: dict[str, set[TableId]] = {}
        self._looked_at: set[TableId] = set()
        self._told: Mapping[TableId, Blocked] = {}
        self._has_news = False
        self.refresh()

    def refresh(self) -> None:
        """Read what other replicas have seen. Raises TemporaryError."""
        self._take(self._store.folders())

    def seen(self, table: Table, view: TableView) -> None:
        """Learn from an observation, before anything is decided on the table.

        A new folder is stored before the folders of the others are read. So of two replicas that look at the same time
        at least one finds the other. Raises TemporaryError if the store does not answer.
        """
        if view.folder:
            row = FolderRow(table=table.id, location=table.location, folder=_digest(view.folder))
            if self._rows.get(table.id) != row:
                self._store.keep_folder(row)
                self._take([*self._store.folders(folder=row.folder), row])
        self._looked_at.add(table.id)

    def missed(self, table: TableId) -> None:
        """Note that a table could not be observed."""
        self._looked_at.add(table)

    def unseen(self, tables: Iterable[TableId]) -> frozenset[str]:
        """Return the formats of those tables in catalogs that were never looked at. Any of them may lie in the folder
        of another table of its format, so no run of the format begins before.
        """
        found = (self._tables[one] for one in tables if one not in self._looked_at and one in self._tables)
        return frozenset(one.format for one in found if is_in_catalog(one.location) and self._row_of(one) is None)

    def blocked(self, table: Table) -> Blocked | None:
        """Return why a table must not be served: its folder is registered under another name, too."""
        others = self._others(table)
        return registered_twice(others) if others else None

    def changed(self) -> Collection[TableId]:
        """Return the tables with another answer of `blocked` than at the last question."""
        if not self._has_news and self._edition is self._tables.locations:
            return ()
        before, self._has_news = self._told, False
        self._told = {table.id: one for table in self._tables.values() if (one := self.blocked(table)) is not None}
        return [one for one in before.keys() | self._told.keys() if before.get(one) != self._told.get(one)]

    def _others(self, table: Table) -> Sequence[TableId]:
        if self._edition is not self._tables.locations:
            self._edition, self._has_news = self._tables.locations, True
            self._by_path = {_digest(one.location): one.id for one in self._tables.values()}
        row = self._row_of(table)
        folder = _digest(table.location) if row is None else row.folder
        here = {*self._named.get(folder, ()), self._by_path.get(folder, table.id)} - {table.id}
        known = (self._tables[one] for one in here if one in self._tables)
        return sorted(
            one.id
            for one in known
            if one.format == table.format and (not is_in_catalog(one.location) or self._row_of(one) is not None)
        )

    def _row_of(self, table: Table) -> FolderRow | None:
        """Return the folder of a table under the name that it is registered by now."""
        row = self._rows.get(table.id)
        return None if row is None or row.location != table.location else row

    def _take(self, rows: Iterable[FolderRow]) -> None:
        for row in rows:
            before = self._rows.get(row.table)
            if before == row:
                continue
            if before is not None:
                self._named[before.folder].discard(row.table)
            self._rows[row.table] = row
            self._named.setdefault(row.folder, set()).add(row.table)
            self._has_news = True


def _digest(folder: str) -> str:
    return blake2b(by_place(folder).encode(errors="surrogatepass"), digest_size=16).hexdigest()
