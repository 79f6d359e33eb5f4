"""Standings: what keeps a service of a table from running although its backlog asks for it.

Pauses are people's and live in the store. Rests, strikes and quarantine follow from how runs ended.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import assert_never

from lakewarden.planners.decide import Backoff, Idle, Standing, last_change
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.decision import Blocked
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.model.view import Backlog, TableView
from lakewarden.service.settle import Aftermath, Settlement
from lakewarden.service.store.port import Store

STRIKES = 5
"""So many failures in a row put a service of a table in quarantine."""

LONGEST_REST = timedelta(minutes=30)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Record:
    """How the last runs of one service of one table ended."""

    tries: int = 0
    strikes: int = 0
    backoff: Backoff | None = None
    idle: Idle | None = None
    quarantined: str | None = None


class Standings:
    """Keeps the records and answers with a Standing. Only the control thread touches it."""

    def __init__(self, *, store: Store, clock: Clock, dice: random.Random) -> None:
        self._store = store
        self._clock = clock
        self._dice = dice
        self._records: dict[tuple[TableId, Service], _Record] = {}
        self._pauses = dict(store.pauses())

    def of(
        self,
        table: Table,
        service: Service,
        *,
        active: RunId | None,
        ours: frozenset[str],
        approval: Blocked | None = None,
    ) -> Standing:
        """Return the standing of one service of one table."""
        record = self._records.get((table.id, service), _Record())
        return Standing(
            mode=table.mode,
            active=active,
            paused=self.paused(table.id),
            quarantined=record.quarantined,
            approval=approval,
            backoff=record.backoff,
            idle=record.idle,
            ours=ours,
        )

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
                self._records.pop((table, service), None)

    def quarantine(self, table: TableId, service: Service, reason: str) -> None:
        """Leave a service of a table alone until a person resumes it."""
        key = (table, service)
        self._records[key] = replace(self._records.get(key, _Record()), quarantined=reason)

    def ended(self, table: TableId, service: Service, settlement: Settlement, view: TableView | None) -> None:
        """Learn from how a run ended."""
        key = (table, service)
        record = self._records.get(key, _Record())
        match settlement.aftermath:
            case Aftermath.NONE:
                self._records.pop(key, None)
            case Aftermath.IDLE:
                self._records[key] = _Record(idle=None if view is None else self._idle(view, service))
            case Aftermath.REST:
                tries = record.tries + 1
                self._records[key] = replace(record, tries=tries, backoff=self._rest(settlement, tries))
            case Aftermath.STRIKE:
                self._records[key] = self._struck(record, settlement)
            case Aftermath.QUARANTINE:
                self.quarantine(table, service, settlement.outcome)
            case _:
                assert_never(settlement.aftermath)

    def _struck(self, record: _Record, settlement: Settlement) -> _Record:
        strikes = record.strikes + 1
        if strikes >= STRIKES:
            reason = f"{strikes} failures in a row, the last one: {settlement.outcome}"
            return replace(record, strikes=strikes, quarantined=reason)
        tries = record.tries + 1
        return replace(record, strikes=strikes, tries=tries, backoff=self._rest(settlement, tries))

    def _rest(self, settlement: Settlement, tries: int) -> Backoff:
        longest = max(LONGEST_REST, settlement.delay)
        rest = min(settlement.delay * 2 ** min(tries - 1, 12), longest) * self._dice.uniform(0.8, 1.2)
        until: datetime = self._clock.now() + rest
        return Backoff(until=until, reason=settlement.outcome)

    def _idle(self, view: TableView, service: Service) -> Idle:
        backlog = view.backlogs.get(service, Backlog())
        return Idle(after=last_change(view), commits=backlog.commits, rewrites=backlog.rewrites, at=self._clock.now())
