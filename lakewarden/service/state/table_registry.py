"""The registry: the tables that there are, by id, by location, and by what hooks call them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, ValuesView
from dataclasses import dataclass

from lakewarden.planners.model.table import Table, TableId
from lakewarden.service.hooks.hints import Hint, Registered


@dataclass(frozen=True, kw_only=True, slots=True)
class _Edition:
    tables: Mapping[TableId, Table]
    locations: Mapping[str, TableId]
    hints: Registered


class TableRegistry(Mapping[TableId, Table]):
    """Only the control thread replaces it, as a whole; anybody may read. Who looks twice may see two editions.

    A table that is in it stays as it is: for another one to have its id, the daemon must be started anew.
    """

    def __init__(self, tables: Iterable[Table]) -> None:
        self._edition = _edition(tables)

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
        """Return the tables that a hint is about; none where nobody has registered one."""
        return self._edition.hints.meant_by(hint)

    def replace(self, tables: Iterable[Table]) -> None:
        """Let these be the tables from now on."""
        self._edition = _edition(tables)


def _edition(tables: Iterable[Table]) -> _Edition:
    by_id = {table.id: table for table in tables}
    return _Edition(
        tables=by_id,
        locations={table.location: table.id for table in by_id.values()},
        hints=Registered(by_id.values()),
    )
