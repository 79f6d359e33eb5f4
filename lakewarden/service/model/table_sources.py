"""Sources of tables, and their answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from lakewarden.planners.model.table import Table, TableId


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundTables:
    """The tables of a source, by name in a stable order.

    `unlisted` are beginnings of ids, up to a dot. The source cannot tell now which tables are there. Each has its
    reason. `refused` are the found tables that cannot be registered, with the reason.
    """

    tables: Sequence[Table] = ()
    unlisted: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)

    def tells_of(self, table: TableId) -> bool:
        """Whether the source would have the table if there were one with this id."""
        return not any(table == beginning or table.startswith(f"{beginning}.") for beginning in self.unlisted)


class Source(Protocol):
    """A place in which tables are found."""

    @property
    def name(self) -> str:
        """Return the name for people."""
        ...

    @property
    def every(self) -> timedelta:
        """Return how often it is asked."""
        ...

    def find(self) -> FoundTables:
        """Return all tables that the source can tell of. Raises an error if it can tell of none."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceStatus:
    """A source, and what it answered.

    `tables` are the ids of the tables that it found. `refused` are those that are not served, and `unlisted` the
    namespaces that it could not list, each with the reason. `failure` is why its last listing failed. What was found
    before it stays.
    """

    name: str
    every: timedelta
    listing: bool = False
    asked_at: datetime | None = None
    answered_at: datetime | None = None
    failure: str | None = None
    tables: Sequence[TableId] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    unlisted: Mapping[str, str] = field(default_factory=dict)
