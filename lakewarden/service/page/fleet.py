"""What all tables are together, and what needs a person. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from lakewarden.planners.model.table import TableId
from lakewarden.service.page.facts import Concern, Condition, TableFacts

_NUMBERS = re.compile(r"\d[\d.,:TZ-]*")
_EXAMPLES = 3
_GROUPS = 30
_NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, kw_only=True, slots=True)
class Need:
    """Something that needs a person, on all tables where it is alike: what it is, the remedy, and the tables.

    Reasons that differ only in their numbers are alike. `reason` is that of the first table.
    """

    kind: str
    reason: str
    remedy: str | None
    tables: tuple[TableId, ...]

    @property
    def examples(self) -> tuple[TableId, ...]:
        """The first few of the tables."""
        return self.tables[:_EXAMPLES]


@dataclass(frozen=True, kw_only=True, slots=True)
class Fleet:
    """All tables together: how many are in each condition and of each format, and what needs a person."""

    tables: int
    conditions: Mapping[Condition, int]
    formats: Mapping[str, int]
    needs: Sequence[Need] = field(default_factory=tuple)


def fleet(facts: Sequence[TableFacts]) -> Fleet:
    """Return what these tables are together."""
    conditions = Counter([one.condition for one in facts])
    return Fleet(
        tables=len(facts),
        conditions={one: conditions[one] for one in reversed(Condition) if one in conditions},
        formats=dict(sorted(Counter([one.format for one in facts]).items())),
        needs=needs(facts),
    )


def needs(facts: Iterable[TableFacts]) -> Sequence[Need]:
    """Return what needs a person. What concerns the most tables comes first."""
    groups: dict[tuple[str, str], list[tuple[TableId, Concern]]] = {}
    alike: dict[str, str] = {}
    for one in facts:
        for concern in one.concerns:
            reason = alike.get(concern.reason)
            if reason is None:
                reason = alike[concern.reason] = _NUMBERS.sub("#", concern.reason)
            groups.setdefault((concern.kind, reason), []).append((one.id, concern))
    found = [
        Need(
            kind=kind,
            reason=group[0][1].reason,
            remedy=group[0][1].remedy,
            tables=tuple(dict.fromkeys([table for table, _ in group])),
        )
        for (kind, _), group in groups.items()
    ]
    return sorted(found, key=lambda need: (-len(need.tables), need.kind))[:_GROUPS]


SORTS: Mapping[str, Callable[[TableFacts], tuple[Any, ...]]] = {
    "worst": lambda one: (-one.condition, one.pending_since or _NEVER, -one.commits, one.id),
    "id": lambda one: (one.id,),
    "oldest-pending": lambda one: (one.pending_since or _NEVER, one.id),
    "commits": lambda one: (-one.commits, one.id),
    "bytes": lambda one: (-one.bytes, one.id),
    "quiet": lambda one: (one.last_commit_at or _NEVER, one.id),
}
"""The orders of the list of tables."""
