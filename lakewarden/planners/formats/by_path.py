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

    catalog_settings: Any = None
    trigger_strategies: Mapping[str, Callable[[Any], Trigger]] = {}
    commit_hook: CommitHook | None = None

    def tables_in(self, catalog: str, settings: Any, storage: Storage) -> Listing:
        """Return no tables."""
        return Listing()

    def as_found(self, table: Table, identifier: str) -> Table:
        """Return the table as it is."""
        return table
