"""What the formats have in common that name their tables by paths, and have no catalogs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lakewarden.planners.hooks import CommitHook
from lakewarden.planners.model.table import Table
from lakewarden.planners.ports import Listing, Storage
from lakewarden.planners.triggers import Trigger


class NamedByPath:
    """The part of a TableFormat without catalogs, trigger strategies of its own and commit hooks."""

    @property
    def catalog_settings(self) -> Any:
        """Return None: tables are named by their paths."""
        return None

    def tables_in(self, catalog: str, settings: Any, storage: Storage) -> Listing:
        """Return no tables."""
        return Listing()

    @property
    def trigger_strategies(self) -> Mapping[str, Callable[[Any], Trigger]]:
        """Return none."""
        return {}

    @property
    def commit_hook(self) -> CommitHook | None:
        """Return None: the writers of such a table announce nothing."""
        return None

    def as_found(self, table: Table, identifier: str) -> Table:
        """Return the table as it is."""
        return table
