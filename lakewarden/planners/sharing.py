"""Equal values become one value. Thousands of tables have mostly the same policies and options."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any, TypeVar

from lakewarden.planners.model.table import Table

_MOST = 1024
"""The most values that are kept. Those that were not met for the longest time are forgotten first."""

_SHARED = ("format", "catalog", "poll", "spark", "options", "budget", "contact", "labels", "sources", "file", "unfit")
"""The settings of a table that many other tables have, too."""

_V = TypeVar("_V")


class SharedValues:
    """Keeps the first of equal values. Values are equal if their pickles are. Values that change must not be shared."""

    def __init__(self) -> None:
        self._kept: dict[bytes, Any] = {}

    def one(self, value: _V) -> _V:
        """Return the first value that is equal to this one."""
        content = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        kept: _V = self._kept.pop(content, value)
        self._kept[content] = kept
        if len(self._kept) > _MOST:
            del self._kept[next(iter(self._kept))]
        return kept

    def table(self, table: Table) -> Table:
        """Return the table. Settings that other tables have too are the same values."""
        shared = {name: self.one(getattr(table, name)) for name in _SHARED}
        policies = self.one({service: self.one(policy) for service, policy in table.policies.items()})
        return replace(table, policies=policies, **shared)
