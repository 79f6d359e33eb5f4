"""The registered tables, by the values of hints."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import assert_never

from lakewarden.planners.hooks import At, Hint, Named
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.storage.locations import by_place, is_in_catalog, named_in_catalog


class KnownTables:
    """The registered tables, by the values of hints."""

    def __init__(self, tables: Iterable[Table]) -> None:
        self._at: dict[str, TableId] = {}
        self._named: defaultdict[str, dict[str, TableId]] = defaultdict(dict)
        for table in tables:
            self._at[by_place(table.location)] = table.id
            if is_in_catalog(table.location):
                catalog, identifier = named_in_catalog(table.location)
                self._named[identifier][catalog] = table.id

    def meant_by(self, hint: Hint) -> tuple[TableId, ...]:
        """Return the registered tables that a hint is about."""
        match hint:
            case At(location=location):
                known_at = self._at.get(by_place(location))
                return () if known_at is None else (known_at,)
            case Named(identifier=identifier, catalog=catalog):
                by_catalog = self._named.get(identifier, {})
                return tuple(table for name, table in by_catalog.items() if catalog in (None, name))
            case _:
                assert_never(hint)
