"""What sources of tables tell, and what they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from lakewarden.planners.model.table import Table, TableId


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """The tables of a source, by name in an order that stays.

    `unlisted` are the beginnings of ids, up to a dot, of which it cannot tell now, with why; `refused` what it found
    and cannot be registered, with why.
    """

    tables: Sequence[Table] = ()
    unlisted: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)

    def tells_of(self, table: TableId) -> bool:
        """Whether it would have the table if there were one of this id."""
        return not any(table == beginning or table.startswith(f"{beginning}.") for beginning in self.unlisted)


class Source(Protocol):
    """Where tables are found."""

    @property
    def name(self) -> str:
        """Return what people know it by."""
        ...

    @property
    def every(self) -> timedelta:
        """Return how often it is asked."""
        ...

    def find(self) -> Found:
        """Return all of its tables that it can tell of. Raises an error where that is none."""
        ...
