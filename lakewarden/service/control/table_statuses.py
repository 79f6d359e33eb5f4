"""The status of every table, kept until a part of it changes: between two requests few of ten thousand tables do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple

from lakewarden.planners.lock_proof import Evidence
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.decision import Decision, WouldRun
from lakewarden.planners.model.instant import Instant, Service
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.service.model.replica import ReplicaId
from lakewarden.service.model.rows import ApprovalRow, RewriteRow
from lakewarden.service.model.run import Run
from lakewarden.service.ownership.ownership import Ownership
from lakewarden.service.rules.proof import foreign_warning
from lakewarden.service.rules.writer_failures import Blamed
from lakewarden.service.scheduling.scheduling import SchedulingParts
from lakewarden.service.state.daemon_state import DaemonState
from lakewarden.service.state.service_states import Retries


@dataclass(frozen=True, kw_only=True, slots=True)
class TableStatus:
    """A registered table as the daemon sees it now.

    `view` is the last observation. It is None before the first one, and if another replica owns the table. `failure` is
    why the last attempt to observe the table failed. `polled_every` is how often it is polled now. `paused` is the
    reason of the pause of the table. `owner` is the replica that owns it, or None. `lock` is the evidence about
    the lock of the writers, or None if nothing has to be proved. `smaller` has the services with smaller plans for a
    time, and why. `rewrites` has the services with a rewrite of all files that was asked for and has not ended.
    `would_run` has the services that would run if the mode of the table let them. `foreign_services` are the services
    that other programs have completed within a day, although they have a policy here.
    """

    table: Table
    owner: ReplicaId | None = None
    view: TableView | None = None
    polled_every: timedelta | None = None
    failure: str | None = None
    paused: str | None = None
    decisions: Mapping[Service, Decision] = field(default_factory=dict)
    would_run: Mapping[Service, WouldRun] = field(default_factory=dict)
    active: tuple[Run, ...] = ()
    approvals: Mapping[Service, ApprovalRow] = field(default_factory=dict)
    writer_failures: tuple[Blamed, ...] = ()
    retries: Mapping[Service, Retries] = field(default_factory=dict)
    lock: Evidence | None = None
    smaller: Mapping[Service, str] = field(default_factory=dict)
    rewrites: Mapping[Service, RewriteRow] = field(default_factory=dict)
    foreign_services: tuple[Instant, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What an operator should know about the table although it blocks nothing."""
        return (
            *(self.view.warnings if self.view else ()),
            *([foreign_warning(self.foreign_services)] if self.foreign_services else ()),
        )


_Common = tuple[
    ReplicaId | None,
    timedelta | None,
    str | None,
    Mapping[Service, Decision],
    Mapping[Service, Decision] | None,
    Evidence | None,
    Mapping[Service, Retries],
]
"""The answers of the rooms that know something about nearly every table, as they were last compared: the owner, the
cadence, the pause, the decisions, the decisions of the mode `plan`, the evidence of the lock, and the retries.
"""


class _Kept(NamedTuple):
    """What is kept of a table. `common` is None if a room said something that few tables have."""

    status: TableStatus
    common: _Common | None = None


class TableStatuses:
    """Any thread may ask. A status is the same object for as long as nothing that it says has changed.

    No room has to report a change. Each question asks every room for its part of the status and compares it with the
    part that is kept. So what is kept cannot be older than the answers of the rooms, which must replace what they have
    answered and never change it.

    Most rooms know something about a few tables only: a failure, an active run, an approval. A question about all
    tables asks such a room once for its tables, and asks for each other table only the rooms of `_Common`.
    """

    def __init__(self, *, state: DaemonState, ownership: Ownership, scheduling: SchedulingParts, clock: Clock) -> None:
        self._tables = state.tables
        self._observations = state.observations
        self._service_states = state.service_states
        self._approvals = state.approvals
        self._rewrites = state.rewrites
        self._active_runs = state.active_runs
        self._proofs = state.proofs
        self._foreign_services = state.foreign_services
        self._shares = ownership.shares
        self._poller = scheduling.poller
        self._requests = scheduling.requests
        self._clock = clock
        self._kept: dict[TableId, _Kept] = {}

    def all(self) -> Sequence[TableStatus]:
        """Return every registered table, in the order of the registry."""
        before, told_of = self._kept, self._told_of()
        owner_of, interval = self._shares.owners(), self._poller.interval
        seen, paused = self._observations.kept, self._service_states.paused
        decisions, planned = self._requests.decisions, self._requests.planned
        evidence, retries = self._proofs.evidence, self._service_states.retries
        kept = {}
        for table in self._tables.values():
            of = table.id
            entry = before.get(of)
            if of not in told_of:  # this is done for each of ten thousand tables, so nothing else is called here
                owner, cadence, pause = owner_of(table), interval(table), paused(of)
                common = (owner, cadence, pause, decisions(of), planned(of), evidence(of), retries(of))
                observation = seen(of)
                view = None if observation is None else observation.view
                same = entry is not None and entry.status.view is view and entry.status.table is table
                if entry is None or not same or entry.common != common:
                    entry = self._look(table, entry)
                    entry = entry._replace(common=common if _says_no_more(entry.status, common) else None)
            else:
                entry = self._look(table, entry)._replace(common=None)
            kept[of] = entry
        self._kept = kept
        return [entry.status for entry in kept.values()]

    def of(self, table: Table) -> TableStatus:
        """Return one table."""
        return self._look(table, self._kept.get(table.id)).status

    def polled_ago(self, table: TableId) -> timedelta | None:
        """Return the time since the last attempt to observe a table, or None."""
        polled_at = self._poller.polled_at(table)
        return None if polled_at is None else timedelta(seconds=self._clock.monotonic() - polled_at)

    def _told_of(self) -> frozenset[TableId]:
        """Return the tables about which a room says something that few tables have. Each may have more than it says."""
        return frozenset().union(
            self._poller.failing(),
            self._active_runs.tables(),
            self._approvals.tables(),
            self._rewrites.tables(),
            self._service_states.smaller(),
            self._foreign_services.tables(),
        )

    def _look(self, table: Table, kept: _Kept | None) -> _Kept:
        status = self._status(table)
        # A view is equal only to itself: a comparison of two large ones would take longer than a new status.
        if kept is not None and kept.status.view is status.view and kept.status == status:
            return kept
        return _Kept(status=status)

    def _status(self, table: Table) -> TableStatus:
        of = table.id
        owner = self._shares.owner_of(table)
        observation = self._observations.kept(of)
        view = None if observation is None else observation.view
        return TableStatus(
            table=table,
            owner=None if owner is None else owner.id,
            view=view,
            polled_every=self._poller.interval(table),
            failure=self._poller.failure(of),
            paused=self._service_states.paused(of),
            decisions=self._requests.decisions(of),
            would_run=self._requests.would_run(of),
            active=tuple(self._active_runs.of(of).values()),
            approvals={} if view is None else self._approvals.open(table, view),
            writer_failures=self._poller.writer_failures(of),
            retries=self._service_states.retries(of),
            lock=self._proofs.evidence(of),
            smaller=self._service_states.plans_smaller(of),
            rewrites={} if view is None else self._rewrites.under_way(table, view),
            foreign_services=self._foreign_services.of(of),
        )


def _says_no_more(parts: TableStatus, common: _Common) -> bool:
    """Whether a status is made of the common answers alone. A room may have said more since they were given."""
    few = (parts.failure, parts.active, parts.approvals, parts.writer_failures)
    fewer = (parts.smaller, parts.rewrites, parts.foreign_services)
    owner, polled_every, paused, decisions, _, lock, retries = common
    answers = (parts.owner, parts.polled_every, parts.paused, parts.decisions, parts.lock, parts.retries)
    return not any(few) and not any(fewer) and answers == (owner, polled_every, paused, decisions, lock, retries)
