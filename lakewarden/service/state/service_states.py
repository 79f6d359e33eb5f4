"""Backoff and quarantine: why a service of a table does not run although its backlog is due.

Operators set pauses. Backoff, strikes, suspicion and quarantine follow from the ends of runs. All are in the store:
they survive the daemon, and the next owner of a table has them.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple, assert_never

import structlog

from lakewarden.planners.decide import Backoff, Idle, ServiceState, last_change
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.decision import Blocked
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import Mode, Table, TableId
from lakewarden.planners.model.view import Backlog, TableView
from lakewarden.planners.settings import format_size
from lakewarden.service.model.rows import ServiceStateRow
from lakewarden.service.rules.dispatch import LastRuns
from lakewarden.service.rules.settle import Consequence, Settlement

if TYPE_CHECKING:
    from lakewarden.service.store.sql.store import Store

log = structlog.get_logger(__name__)

STRIKES = 5
"""So many failures in a row put a service of a table in quarantine."""

LONGEST_REST = timedelta(minutes=30)

FAILING_AFTER = 3
"""After so many backoffs in a row a service is one of those that share half of a pool."""

SMALLER_FOR = timedelta(days=7)
"""How long plans are made smaller after one that was too large. Then the next one has its natural size again."""

SMALLEST_PLAN = 64 * 2**20
"""No plan is made smaller than this, in bytes. If so little fails, the size is not the reason."""

_Key = tuple[TableId, Service]


@dataclass(frozen=True, kw_only=True, slots=True)
class Retries:
    """How often in a row the runs of a service yielded or failed temporarily, and the reason of the last one."""

    times: int
    reason: str


class _OfTable(NamedTuple):
    """The rows of a table, and what `retries` says of them. Scrapes and pages ask for each of thousands of tables."""

    rows: Mapping[Service, ServiceStateRow]
    retries: Mapping[Service, Retries]


_NOTHING = _OfTable({}, {})


class ServiceStates:
    """Keeps the rows of the store in memory and answers with a ServiceState. Only the control thread uses it. Other
    threads may ask for `retries`, `plans_smaller` and the sets of tables: what is kept of a table is only replaced.
    """

    def __init__(self, *, store: Store, clock: Clock, rng: random.Random) -> None:
        self._store = store
        self._clock = clock
        self._rng = rng
        self._states: dict[TableId, _OfTable] = {}
        self._unsaved: set[_Key] = set()
        self.refresh()

    def refresh(self) -> None:
        """Read what other replicas, and operators through them, have changed. Raises TemporaryError."""
        self.keep_up()
        rows: dict[TableId, dict[Service, ServiceStateRow]] = {}
        for row in self._store.rows(ServiceStateRow):
            rows.setdefault(row.table, {})[row.service] = row
        self._states = {table: _of_table(services) for table, services in rows.items()}

    def of(
        self,
        table: Table,
        service: Service,
        *,
        active: RunId | None,
        ours: frozenset[str],
        approval: Blocked | None = None,
        shared: Blocked | None = None,
        unproved: Blocked | None = None,
        rewrite_all: str | None = None,
        mode: Mode | None = None,
    ) -> ServiceState:
        """Return the state of one service of one table, in the mode of the table or in another one."""
        row = self._row(table.id, service)
        return ServiceState(
            mode=mode or table.mode,
            table=table.id,
            active=active,
            paused=self.paused(table.id),
            quarantined=row.quarantined,
            approval=approval,
            backoff=_backoff(row),
            idle=_idle(row),
            ours=ours,
            shared=shared,
            unproved=unproved,
            rewrite_all=rewrite_all,
        )

    def retries(self, table: TableId) -> Mapping[Service, Retries]:
        """Return the services of a table with last runs that yielded, or failed temporarily. It is the same object for
        as long as nothing of the table changes.
        """
        return self._states.get(table, _NOTHING).retries

    def smaller(self) -> Collection[TableId]:
        """Return the tables that `plans_smaller` may say something about."""
        states = list(self._states.items())
        return {of for of, (rows, _) in states if any(row.smaller_until is not None for row in rows.values())}

    def tries(self, table: TableId, service: Service) -> int:
        """Return how many runs of a service in a row yielded, or failed temporarily."""
        return self._row(table, service).tries

    def largest_plan(self, table: TableId, service: Service) -> int | None:
        """Return how many bytes a new plan of a service may rewrite, or None if no plan was too large recently."""
        row = self._row(table, service)
        return row.largest_plan if row.smaller_until is not None and self._clock.now() < row.smaller_until else None

    def plans_smaller(self, table: TableId) -> Mapping[Service, str]:
        """Return the services with smaller plans now, each with the largest size, the end and the reason."""
        smaller = {
            row.service: (most, row)
            for row in self._rows(table).values()
            if (most := self.largest_plan(table, row.service)) is not None
        }
        return {
            service: f"plans rewrite {format_size(most)} at most until {row.smaller_until:%Y-%m-%d}, for "
            f"{row.smaller_reason}"
            for service, (most, row) in smaller.items()
        }

    def too_large(self, table: TableId, service: Service, run: RunId, size: int, reason: str) -> None:
        """Make plans half as large for some days, after a run with so many bytes killed its JVM or did not end."""
        self._keep(
            replace(
                self._row(table, service),
                largest_plan=max(size // 2, SMALLEST_PLAN),
                smaller_until=self._clock.now() + SMALLER_FOR,
                smaller_reason=f"run {run} had {format_size(size)} to rewrite: {reason}",
            )
        )

    def last_runs(self) -> LastRuns:
        """Return what the queue has to know of the last runs. Services that failed temporarily count as `yielded`."""
        rows = [row for state in self._states.values() for row in state.rows.values()]
        return LastRuns(
            suspects={(row.table, row.service) for row in rows if row.suspect},
            failing={(row.table, row.service) for row in rows if _is_failing(row)},
            yielded={(row.table, row.service) for row in rows if row.tries > 0 and row.strikes == 0},
        )

    def is_failing(self, table: TableId, service: Service) -> bool:
        """Whether a service of a table failed recently, or ended without a result again and again."""
        return _is_failing(self._row(table, service))

    def has_failed(self, table: TableId, service: Service) -> bool:
        """Whether the last run of a service failed. One that yielded has not: its backoff alone makes it rarer."""
        return self._row(table, service).strikes > 0

    def paused(self, table: TableId) -> str | None:
        """Return why the table is paused, alone or with all tables, or None."""
        return self._pauses.get(table, self._pauses.get(None))

    def set_back(self, table: TableId | None) -> str | None:
        """Return what a resumption of a table, or of all tables, would end, in words. None if there is nothing."""
        pause = self._pauses.get(table)
        rows = {} if table is None else self._rows(table)
        quarantined = [row for row in rows.values() if row.quarantined is not None]
        parts = [] if pause is None else [f"paused: {pause}"]
        parts += [f"{row.service} in quarantine: {row.quarantined}" for row in quarantined]
        return "; ".join(parts) or None

    def quarantined(self, table: TableId) -> str | None:
        """Return the first service of a table that is in quarantine, with the reason. None if there is none."""
        rows = (row for row in self._rows(table).values() if row.quarantined is not None)
        return next((f"{row.service} is in quarantine: {row.quarantined}" for row in rows), None)

    def pause(self, table: TableId | None, reason: str) -> None:
        """Pause a table, or all tables."""
        self._store.pause(table, reason=reason, at=self._clock.now())
        self._pauses[table] = reason

    def resume(self, table: TableId | None) -> None:
        """End a pause. For a table, the quarantine and the backoff of its services end too."""
        self._store.resume(table)
        self._pauses.pop(table, None)
        if table is not None:
            for service in Service:
                self.release(table, service)

    def quarantine(self, table: TableId, service: Service, reason: str) -> None:
        """Put a service of a table in quarantine until an operator resumes it."""
        self._keep(replace(self._row(table, service), quarantined=reason))

    def held_back(self, table: TableId, service: Service) -> str | None:
        """Return what a release of a service would end, in words. None if it is in no quarantine and no backoff."""
        row = self._row(table, service)
        if row.quarantined is not None:
            return f"in quarantine: {row.quarantined}"
        return None if row.rest_until is None else f"backing off: {row.rest_reason}"

    def release(self, table: TableId, service: Service) -> None:
        """End the quarantine and the backoff of a service. Raises TemporaryError."""
        self._store.forget_row(ServiceStateRow, table, service)
        self._drop(table, service)

    def ended(
        self,
        table: TableId,
        service: Service,
        settlement: Settlement,
        view: TableView | None,
        *,
        cleared: bool = False,
    ) -> None:
        """Note how a run ended. `cleared` ends the suspicion that the service kills JVMs."""
        row = self._row(table, service)
        if cleared and row.suspect:
            row = replace(row, suspect=False)
            self._keep(row)
        match settlement.consequence:
            case Consequence.NONE:
                self._keep(self._clean_slate(row))
            case Consequence.AGAIN:
                return
            case Consequence.IDLE:
                fresh = self._clean_slate(row)
                self._keep(fresh if view is None else self._idles(fresh, view))
            case Consequence.LATER:
                until = self._clock.now() + settlement.delay
                self._keep(replace(self._clean_slate(row), rest_until=until, rest_reason=settlement.outcome))
            case Consequence.REST:
                self._keep(self._rests(row, settlement))
            case Consequence.SUSPECT:
                self._keep(self._rests(replace(row, suspect=True), settlement))
            case Consequence.STRIKE:
                self._keep(self._struck(row, settlement))
            case Consequence.QUARANTINE:
                self.quarantine(table, service, settlement.outcome)
            case _:
                assert_never(settlement.consequence)

    def _clean_slate(self, row: ServiceStateRow) -> ServiceStateRow:
        """Return a row without failures of the service. The limit on the size of its plans stays."""
        fresh = ServiceStateRow(table=row.table, service=row.service)
        if row.smaller_until is None or row.smaller_until <= self._clock.now():
            return fresh
        return replace(
            fresh,
            largest_plan=row.largest_plan,
            smaller_until=row.smaller_until,
            smaller_reason=row.smaller_reason,
        )

    def _struck(self, row: ServiceStateRow, settlement: Settlement) -> ServiceStateRow:
        strikes = row.strikes + 1
        if strikes >= STRIKES:
            reason = f"{strikes} failures in a row, the last one: {settlement.outcome}"
            return replace(row, strikes=strikes, quarantined=reason)
        return self._rests(replace(row, strikes=strikes), settlement)

    def _rests(self, row: ServiceStateRow, settlement: Settlement) -> ServiceStateRow:
        longest = max(LONGEST_REST, settlement.delay)
        rest = min(settlement.delay * 2 ** min(row.tries, 12), longest) * self._rng.uniform(0.8, 1.2)
        until = self._clock.now() + rest
        return replace(row, tries=row.tries + 1, rest_until=until, rest_reason=settlement.outcome)

    def _idles(self, row: ServiceStateRow, view: TableView) -> ServiceStateRow:
        backlog = view.backlogs.get(row.service, Backlog())
        return replace(
            row,
            idle_after=last_change(view),
            idle_commits=backlog.commits,
            idle_rewrites=backlog.rewrites,
            idle_at=self._clock.now(),
        )

    def _rows(self, table: TableId) -> Mapping[Service, ServiceStateRow]:
        return self._states.get(table, _NOTHING).rows

    def _row(self, table: TableId, service: Service) -> ServiceStateRow:
        return self._rows(table).get(service) or ServiceStateRow(table=table, service=service)

    def _drop(self, table: TableId, service: Service) -> None:
        self._unsaved.discard((table, service))
        rest = {of: row for of, row in self._rows(table).items() if of is not service}
        if rest:
            self._states[table] = _of_table(rest)
        else:
            self._states.pop(table, None)

    def _keep(self, row: ServiceStateRow) -> None:
        """Keep a row.

        If the store does not answer, the row is written later, and the run is settled all the same. Only a daemon that
        is killed meanwhile forgets the row.
        """
        key = (row.table, row.service)
        if row == self._row(*key):
            return
        self._states[row.table] = _of_table({**self._rows(row.table), row.service: row})
        self._unsaved.add(key)
        try:
            self._save()
        except TemporaryError as error:
            log.warning("store_unavailable", error=str(error))

    def keep_up(self) -> None:
        """Write the rows that the store could not keep before, and read the few pauses: so a store that is away is
        noticed. Raises TemporaryError.
        """
        self._save()
        self._pauses = dict(self._store.pauses())

    def _save(self) -> None:
        for key in sorted(self._unsaved):
            row = self._row(*key)
            if row == ServiceStateRow(table=row.table, service=row.service):
                self._store.forget_row(ServiceStateRow, *key)
                self._drop(*key)
            else:
                self._store.keep_row(row)
            self._unsaved.discard(key)


def _of_table(rows: Mapping[Service, ServiceStateRow]) -> _OfTable:
    retries = {
        row.service: Retries(times=row.tries, reason=row.rest_reason or "") for row in rows.values() if row.tries > 0
    }
    return _OfTable(dict(sorted(rows.items())), dict(sorted(retries.items())))


def _is_failing(row: ServiceStateRow) -> bool:
    return row.strikes > 0 or row.tries >= FAILING_AFTER


def _backoff(row: ServiceStateRow) -> Backoff | None:
    if row.rest_until is None:
        return None
    return Backoff(until=row.rest_until, reason=row.rest_reason or "", failed=row.tries > 0)


def _idle(row: ServiceStateRow) -> Idle | None:
    if row.idle_after is None:
        return None
    return Idle(after=row.idle_after, commits=row.idle_commits, rewrites=row.idle_rewrites, at=row.idle_at)
