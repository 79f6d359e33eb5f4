"""A source of tables while the daemon runs: its last answer, and when it is asked again."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime

from lakewarden.service.model.found import FoundTables, Source, SourceStatus


@dataclass(slots=True, eq=False)
class AskedSource:
    """A source, its last answer, and when it is asked again, in monotonic seconds."""

    source: Source
    found: FoundTables = field(default_factory=FoundTables)
    listing: Future[FoundTables] | None = None
    due_at: float = float("-inf")
    failures: int = field(default=0)
    heard: bool = False
    asked_at: datetime | None = None
    answered_at: datetime | None = None
    failure: str | None = None

    def status(self, left_out: Mapping[str, str]) -> SourceStatus:
        """Return the source as people see it. `left_out` are its tables that cannot be served beside others."""
        return SourceStatus(
            name=self.source.name,
            every=self.source.every,
            listing=self.listing is not None,
            asked_at=self.asked_at,
            answered_at=self.answered_at,
            failure=self.failure,
            tables=tuple(table.id for table in self.found.tables),
            refused={**self.found.refused, **left_out},
            unlisted=self.found.unlisted,
        )
