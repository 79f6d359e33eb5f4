"""The facts about a table that the list of tables shows, and what of it needs a person."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any, NamedTuple

from lakewarden.planners.model.decision import Blocked
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Mode, TableId
from lakewarden.service.control.table_statuses import TableStatus
from lakewarden.service.model.run import Run, RunState


class Condition(IntEnum):
    """The condition of a table. The worst one is the greatest."""

    OK = 0
    WOULD_RUN = 1
    NOT_OBSERVED = 2
    PAUSED = 3
    BLOCKED = 4
    WAITS_FOR_APPROVAL = 5
    FAILING = 6

    @property
    def words(self) -> str:
        """The condition for people."""
        return _CONDITIONS.get(self.name) or self.name.lower().replace("_", " ")


_WAITS = "waiting for approval"
_CONDITIONS = {"WOULD_RUN": "due, not run in mode plan", "WAITS_FOR_APPROVAL": _WAITS}


class Concern(NamedTuple):
    """Something about a table that needs a person."""

    kind: str
    reason: str
    remedy: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class TableFacts:
    """A table in a list. `commits` is the largest number of commits since a service completed. `pending` counts its
    plans that wait, and `pending_since` is when the oldest was requested.
    """

    id: TableId
    format: str
    kind: str
    mode: str
    condition: Condition
    active: tuple[Run, ...]
    commits: int
    bytes: int
    pending: int
    pending_since: datetime | None
    last_commit_at: datetime | None
    labels: Mapping[str, str]
    concerns: tuple[Concern, ...]


class FactsOfTables:
    """Remembers the facts about tables, because thousands of them do not change between two requests.

    A table that has not changed has the same status object (`ControlPlane.tables`). Any thread may ask.
    """

    def __init__(self) -> None:
        self._entries: Mapping[TableId, tuple[TableStatus, TableFacts]] = {}

    def of(self, statuses: Iterable[TableStatus]) -> Sequence[TableFacts]:
        """Return the facts about all tables, and forget every other table."""
        before = self._entries
        entries = {}
        for status in statuses:
            kept = before.get(status.table.id)
            entries[status.table.id] = kept if kept is not None and kept[0] is status else (status, facts_of(status))
        self._entries = entries
        return [facts for _, facts in entries.values()]


_REWRITING = (Service.COMPACTION, Service.LOG_COMPACTION, Service.CLUSTERING)
"""Readers wait for the work of these. The files are often the same ones, so their backlogs are not added."""


def facts_of(status: TableStatus) -> TableFacts:
    """Return the facts about one table. Its backlog is the largest of a service that rewrites."""
    table, view = status.table, status.view
    instants = () if view is None else view.timeline.instants
    waiting = [instant for instant in instants if instant.pending and isinstance(instant.stands_for, Service)]
    rewriting = [service for service in _REWRITING if service in table.policies or not table.policies]
    backlogs = () if view is None else [view.backlogs[service] for service in rewriting if service in view.backlogs]
    return TableFacts(
        id=table.id,
        format=table.format,
        kind=(view.kind if view else "").replace("_", " ").lower(),
        mode=table.mode,
        condition=_condition(status),
        active=status.active,
        commits=max((backlog.commits for backlog in backlogs), default=0),
        bytes=max((backlog.bytes or 0 for backlog in backlogs), default=0),
        pending=len(waiting),
        pending_since=min((instant.requested_at for instant in waiting), default=None),
        last_commit_at=view.writers.last_commit_at if view else None,
        labels=table.labels,
        concerns=tuple(dict.fromkeys(_concerns(status))),
    )


def _concerns(status: TableStatus) -> Iterator[Concern]:
    if status.failure is not None:
        yield Concern("cannot be observed", status.failure, None)
    for fault in status.view.faults if status.view else ():
        yield Concern("metadata cannot be read", fault, None)
    for service, row in status.approvals.items():
        yield Concern(_WAITS, f"{service} would delete {row.deletes}", "approve it on the page of the table")
    for failure in status.writer_failures:
        if failure.run is not None:
            yield Concern(
                "a write failed beside a run", failure.failure.reason, "see the writers on the page of the table"
            )
    if status.paused is not None:
        yield Concern("paused", status.paused, "resume it on the page of the table")
    for service, decision in _blocks(status).items():
        if service not in status.approvals:
            yield Concern(f"{service} is blocked", decision.reason, decision.remedy)


def _blocks(status: TableStatus) -> Mapping[Service, Blocked]:
    """Return the services of a table that are blocked although an operator wants them to run."""
    if status.paused is not None or status.table.mode is Mode.OBSERVE:
        return {}
    return {service: decision for service, decision in status.decisions.items() if isinstance(decision, Blocked)}


def _condition(status: TableStatus) -> Condition:
    if status.failure is not None or (status.view is not None and status.view.faults):
        return Condition.FAILING
    if status.approvals:
        return Condition.WAITS_FOR_APPROVAL
    if status.paused is not None:
        return Condition.PAUSED
    if _blocks(status):
        return Condition.BLOCKED
    if status.view is None:
        return Condition.NOT_OBSERVED
    return Condition.WOULD_RUN if status.would_run else Condition.OK


# What all tables are together, and what needs a person. Pure.

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
    conditions = Counter([fact.condition for fact in facts])
    return Fleet(
        tables=len(facts),
        conditions={condition: conditions[condition] for condition in reversed(Condition) if condition in conditions},
        formats=dict(sorted(Counter([fact.format for fact in facts]).items())),
        needs=needs(facts),
    )


def needs(facts: Iterable[TableFacts]) -> Sequence[Need]:
    """Return what needs a person: first the deletions that wait for an approval, then what concerns the most tables."""
    groups: dict[tuple[str, str], list[tuple[TableId, Concern]]] = {}
    alike: dict[str, str] = {}
    for fact in facts:
        for concern in fact.concerns:
            reason = alike.get(concern.reason)
            if reason is None:
                reason = alike[concern.reason] = _NUMBERS.sub("#", concern.reason)
            groups.setdefault((concern.kind, reason), []).append((fact.id, concern))
    entries = [
        Need(
            kind=kind,
            reason=group[0][1].reason,
            remedy=group[0][1].remedy,
            tables=tuple(dict.fromkeys([table for table, _ in group])),
        )
        for (kind, _), group in groups.items()
    ]
    return sorted(entries, key=lambda need: (need.kind != _WAITS, -len(need.tables), need.kind))[:_GROUPS]


SORTS: Mapping[str, Callable[[TableFacts], tuple[Any, ...]]] = {
    "worst": lambda facts: (-facts.condition, facts.pending_since or _NEVER, -facts.commits, facts.id),
    "id": lambda facts: (facts.id,),
    "oldest-pending": lambda facts: (facts.pending_since or _NEVER, facts.id),
    "commits": lambda facts: (-facts.commits, facts.id),
    "bytes": lambda facts: (-facts.bytes, facts.id),
    "quiet": lambda facts: (facts.last_commit_at or _NEVER, facts.id),
}
"""The orders of the list of tables."""


# What the stored runs of a table did.


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceSums:
    """What the succeeded runs of one service did together. A figure that no run has is None."""

    service: Service
    runs: int
    files_rewritten: int | None
    files_added: int | None
    bytes_rewritten: int | None
    files_deleted: int | None
    bytes_deleted: int | None


def sums_by_service(runs: Sequence[Run]) -> Sequence[ServiceSums]:
    """Return what these runs did, by service."""
    succeeded = [run for run in runs if run.state is RunState.SUCCEEDED]

    def summed(service: Service, name: str) -> int | None:
        figures = [run.figures.get(name) for run in succeeded if run.service is service]
        numbers = [figure for figure in figures if isinstance(figure, int)]
        return sum(numbers) if numbers else None

    return [
        ServiceSums(
            service=service,
            runs=sum(run.service is service for run in succeeded),
            files_rewritten=summed(service, "files_rewritten"),
            files_added=summed(service, "files_added"),
            bytes_rewritten=summed(service, "bytes_rewritten"),
            files_deleted=summed(service, "files_deleted"),
            bytes_deleted=summed(service, "bytes_deleted"),
        )
        for service in Service
        if any(run.service is service for run in succeeded)
    ]
