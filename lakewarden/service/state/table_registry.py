"""The registry: the registered tables, by id, by location, and by the names in hooks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, ValuesView
from dataclasses import dataclass

from lakewarden.planners.hooks import Hint
from lakewarden.planners.model.table import Table, TableId
from lakewarden.service.hooks.registered import KnownTables


@dataclass(frozen=True, kw_only=True, slots=True)
class _Edition:
    tables: Mapping[TableId, Table]
    locations: Mapping[str, TableId]
    hints: KnownTables


class TableRegistry(Mapping[TableId, Table]):
    """Only the control thread replaces the tables, all at once. Any thread may read. Two reads may see two editions.

    The settings of a table change only while it has no run. `held` are the tables with new settings, and those that
    were dropped, that wait for the end of their runs. No run of theirs begins meanwhile.
    """

    def __init__(self, tables: Iterable[Table]) -> None:
        self._edition = _edition(tables)
        self.held: frozenset[TableId] = frozenset()

    def __getitem__(self, table: TableId) -> Table:
        return self._edition.tables[table]

    def __iter__(self) -> Iterator[TableId]:
        return iter(self._edition.tables)

    def __len__(self) -> int:
        return len(self._edition.tables)

    def values(self) -> ValuesView[Table]:
        """Return the tables of one edition."""
        return self._edition.tables.values()

    @property
    def locations(self) -> Mapping[str, TableId]:
        """The tables by their locations."""
        return self._edition.locations

    def meant_by(self, hint: Hint) -> tuple[TableId, ...]:
        """Return the registered tables that a hint is about."""
        return self._edition.hints.meant_by(hint)

    def replace(self, tables: Iterable[Table]) -> None:
        """Replace all tables."""
        self._edition = _edition(tables)


def _edition(tables: Iterable[Table]) -> _Edition:
    by_id = {table.id: table for table in tables}
    return _Edition(
        tables=by_id,
        locations={table.location: table.id for table in by_id.values()},
        hints=KnownTables(by_id.values()),
    )
