"""Backoff and quarantine: what keeps a service of a table from running although its backlog asks for it.

Pauses are people's. Rests, strikes, suspicion and quarantine follow from how runs ended. Both live in the store: they
survive the daemon, and follow a table to another replica.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import assert_never

import structlog

from lakewarden.planners.decide import Backoff, Idle, Standing, last_change
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.decision import Blocked
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.model.view import Backlog, TableView
from lakewarden.planners.settings import format_size
from lakewarden.service.model.rows import StandingRow
from lakewarden.service.rules.settle import Aftermath, Settlement
from lakewarden.service.store.port import Store

log = structlog.get_logger(__name__)

STRIKES = 5
"""So many failures in a row put a service of a table in quarantine."""

LONGEST_REST = timedelta(minutes=30)

TROUBLED_AFTER = 3
"""So many rests in a row make a service one of those that share half of a pool."""

SMALLER_FOR = timedelta(days=7)
"""So long after a plan that was too large plans are made smaller: then the next one is of its natural size again."""

SMALLEST_PLAN = 64 * 2**20
"""No plan is made smaller than this: what fails with so little fails for another reason."""

_Key = tuple[TableId, Service]


@dataclass(frozen=True, kw_only=True, slots=True)
class StepsBack:
    """How often in a row the runs of a service stepped back or failed for a time, and what the last one gave way to."""

    times: int
    reason: str


class Backoffs:
    """Keeps the store's rows at hand and answers with a Standing. Only the control thread touches it."""

    def __init__(self, *, store: Store, clock: Clock, dice: random.Random) -> None:
        self._store = store
        self._clock = clock
        self._dice = dice
        self._rows: dict[_Key, StandingRow] = {}
        self._unsaved: set[_Key] = set()
        self.refresh()

    def refresh(self) -> None:
        """Read anew what other replicas, and people through them, have changed. Raises TemporaryError."""
        self._save()
        self._pauses = dict(self._store.pauses())
        self._rows = {(row.table, row.service): row for row in self._store.standings()}

    def of(
        self,
        table: Table,
        service: Service,
        *,
        active: RunId | None,
        ours: frozenset[str],
        approval: Blocked | None = None,
        claimed: Blocked | None = None,
        unproved: Blocked | None = None,
        freed: frozenset[str] = frozenset(),
    ) -> Standing:
        """Return the standing of one service of one table."""
        row = self._row(table.id, service)
        return Standing(
            mode=table.mode,
            active=active,
            paused=self.paused(table.id),
            quarantined=row.quarantined,
            approval=approval,
            backoff=_backoff(row),
            idle=_idle(row),
            ours=ours,
            claimed=claimed,
            unproved=unproved,
            freed=freed,
        )

    def steps_back(self, table: TableId) -> Mapping[Service, StepsBack]:
        """Return the services of a table whose last runs stepped back, or failed for a time."""
        rows = (row for (of, _), row in self._rows.items() if of == table and row.tries > 0)
        return {row.service: StepsBack(times=row.tries, reason=row.rest_reason or "") for row in rows}

    def tries(self, table: TableId, service: Service) -> int:
        """Return how many runs of a service in a row stepped back, or failed for a time."""
        return self._row(table, service).tries

    def largest_plan(self, table: TableId, service: Service) -> int | None:
        """Return how many bytes a new plan of a service may rewrite; None where no plan was too large of late."""
        row = self._row(table, service)
        return row.largest_plan if row.smaller_until is not None and self._clock.now() < row.smaller_until else None

    def plans_smaller(self, table: TableId) -> Mapping[Service, str]:
        """Return of the services whose plans are made smaller now how large they may be, until when, and why."""
        smaller = {
            service: (most, self._row(table, service))
            for service in Service
            if (most := self.largest_plan(table, service)) is not None
        }
        return {
            service: f"plans rewrite {format_size(most)} at most until {row.smaller_until:%Y-%m-%d}, for "
            f"{row.smaller_reason}"
            for service, (most, row) in smaller.items()
        }

    def too_large(self, table: TableId, service: Service, run: RunId, size: int, reason: str) -> None:
        """Plan half as much for some days, after a run of so many bytes that took its JVM along, or did not end."""
        self._keep(
            replace(
                self._row(table, service),
                largest_plan=max(size // 2, SMALLEST_PLAN),
                smaller_until=self._clock.now() + SMALLER_FOR,
                smaller_reason=f"run {run} had {format_size(size)} to rewrite: {reason}",
            )
        )

    def suspects(self) -> Collection[_Key]:
        """Return the services, each with its table, that may have killed the JVM in which they ran beside others."""
        return {key for key, row in self._rows.items() if row.suspect}

    def troubled(self) -> Collection[_Key]:
        """Return the services, each with its table, that failed of late, or came to nothing again and again."""
        return {key for key in self._rows if self.is_troubled(*key)}

    def is_troubled(self, table: TableId, service: Service) -> bool:
        """Whether a service of a table is one of those."""
        row = self._row(table, service)
        return row.strikes > 0 or row.tries >= TROUBLED_AFTER

    def paused(self, table: TableId) -> str | None:
        """Return why the table is paused, if it is: by itself or with everything."""
        return self._pauses.get(table, self._pauses.get(None))

    def pause(self, table: TableId | None, reason: str) -> None:
        """Pause a table, or everything."""
        self._store.pause(table, reason=reason, at=self._clock.now())
        self._pauses[table] = reason

    def resume(self, table: TableId | None) -> None:
        """End a pause; for a table, its services leave quarantine and rest too."""
        self._store.resume(table)
        self._pauses.pop(table, None)
        if table is not None:
            for service in Service:
                self._store.forget_standing(table, service)
                self._rows.pop((table, service), None)
                self._unsaved.discard((table, service))

    def quarantine(self, table: TableId, service: Service, reason: str) -> None:
        """Leave a service of a table alone until a person resumes it."""
        self._keep(replace(self._row(table, service), quarantined=reason))

    def ended(
        self,
        table: TableId,
        service: Service,
        settlement: Settlement,
        view: TableView | None,
        *,
        cleared: bool = False,
    ) -> None:
        """Learn from how a run ended; `cleared` of the suspicion that it kills JVMs, if it was under one."""
        row = self._row(table, service)
        if cleared and row.suspect:
            row = replace(row, suspect=False)
            self._keep(row)
        match settlement.aftermath:
            case Aftermath.NONE:
                self._keep(self._clean_slate(row))
            case Aftermath.AGAIN:
                return
            case Aftermath.IDLE:
                fresh = self._clean_slate(row)
                self._keep(fresh if view is None else self._idles(fresh, view))
            case Aftermath.LATER:
                until = self._clock.now() + settlement.delay
                self._keep(replace(self._clean_slate(row), rest_until=until, rest_reason=settlement.outcome))
            case Aftermath.REST:
                self._keep(self._rests(row, settlement))
            case Aftermath.SUSPECT:
                self._keep(self._rests(replace(row, suspect=True), settlement))
            case Aftermath.STRIKE:
                self._keep(self._struck(row, settlement))
            case Aftermath.QUARANTINE:
                self.quarantine(table, service, settlement.outcome)
            case _:
                assert_never(settlement.aftermath)

    def _clean_slate(self, row: StandingRow) -> StandingRow:
        """Return a row with nothing held against the service; how large its plans may be is no blame."""
        fresh = StandingRow(table=row.table, service=row.service)
        if row.smaller_until is None or row.smaller_until <= self._clock.now():
            return fresh
        return replace(
            fresh,
            largest_plan=row.largest_plan,
            smaller_until=row.smaller_until,
            smaller_reason=row.smaller_reason,
        )

    def _struck(self, row: StandingRow, settlement: Settlement) -> StandingRow:
        strikes = row.strikes + 1
        if strikes >= STRIKES:
            reason = f"{strikes} failures in a row, the last one: {settlement.outcome}"
            return replace(row, strikes=strikes, quarantined=reason)
        return self._rests(replace(row, strikes=strikes), settlement)

    def _rests(self, row: StandingRow, settlement: Settlement) -> StandingRow:
        longest = max(LONGEST_REST, settlement.delay)
        rest = min(settlement.delay * 2 ** min(row.tries, 12), longest) * self._dice.uniform(0.8, 1.2)
        until = self._clock.now() + rest
        return replace(row, tries=row.tries + 1, rest_until=until, rest_reason=settlement.outcome)

    def _idles(self, row: StandingRow, view: TableView) -> StandingRow:
        backlog = view.backlogs.get(row.service, Backlog())
        return replace(
            row,
            idle_after=last_change(view),
            idle_commits=backlog.commits,
            idle_rewrites=backlog.rewrites,
            idle_at=self._clock.now(),
        )

    def _row(self, table: TableId, service: Service) -> StandingRow:
        return self._rows.get((table, service), StandingRow(table=table, service=service))

    def _keep(self, row: StandingRow) -> None:
        """Take a standing down. A store that is away must not make the ending that it follows from unknown: then it is
        written later, and only a daemon that is killed meanwhile forgets it.
        """
        key = (row.table, row.service)
        if row == self._row(*key):
            return
        self._rows[key] = row
        self._unsaved.add(key)
        try:
            self._save()
        except TemporaryError as trouble:
            log.warning("store_trouble", error=str(trouble))

    def _save(self) -> None:
        for key in sorted(self._unsaved):
            row = self._row(*key)
            if row == StandingRow(table=row.table, service=row.service):
                self._store.forget_standing(*key)
                self._rows.pop(key, None)
            else:
                self._store.keep_standing(row)
            self._unsaved.discard(key)


def _backoff(row: StandingRow) -> Backoff | None:
    if row.rest_until is None:
        return None
    return Backoff(until=row.rest_until, reason=row.rest_reason or "", failed=row.tries > 0)


def _idle(row: StandingRow) -> Idle | None:
    if row.idle_after is None:
        return None
    return Idle(after=row.idle_after, commits=row.idle_commits, rewrites=row.idle_rewrites, at=row.idle_at)
