"""Vanished instants: an instant that was completed is no longer there, and no archive took it.

Then another program restored the table, rolled it back, or replaced it by an old copy. What we know about it is wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from lakewarden.planners.model.instant import InstantKind, Service
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.model.timeline import Timeline
from lakewarden.planners.model.view import TableView
from lakewarden.service.model.run import RunState
from lakewarden.service.store.port import Store

_ARCHIVED_BY_THEMSELVES = frozenset({Service.CLEAN, Service.ROLLBACK})
"""Some releases of Hudi archive these separately from the commits. All other services complete commits."""

_NOT_ARCHIVED = frozenset({InstantKind.SAVEPOINT, InstantKind.RESTORE, InstantKind.OTHER, Service.INDEXING})
"""These have no known order, so none of them is ever reported as vanished."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Newest:
    """The newest instant that a service completed on the table with this `identity`."""

    identity: str
    time: str


class Completed:
    """Remembers, from one decision on a table to the next, the newest instant that each service had completed.

    If a run may have completed another one meanwhile, the store knows it. The store also knows the time before the
    start of the daemon.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._newest: dict[tuple[TableId, Service], _Newest | None] = {}
        self._told: set[_Newest] = set()

    def vanished(self, table: Table, view: TableView, *, active: Collection[Service]) -> Mapping[Service, str]:
        """Return the services with a newest completed instant that has vanished since, each with that instant.

        Each is returned once. If the metadata cannot be read whole, nothing is returned. `active` services have a run
        that may complete another instant before the next observation. Raises TemporaryError.
        """
        if view.faults:
            return {}
        lost = {}
        for service in table.policies:
            known = self._known(table.id, service)
            # a table that was created again has its own history
            if known is None or known.identity != str(view.identity):
                continue
            if known not in self._told and has_vanished(view.timeline, known.time, service):
                self._told.add(known)
                lost[service] = known.time
        for service in table.policies:
            self._remember(table.id, service, view)
        for service in active:
            self.begun(table.id, service)
        return lost

    def begun(self, table: TableId, service: Service) -> None:
        """Note that a run may complete another instant before the next observation."""
        self._newest.pop((table, service), None)

    def forget(self, table: TableId) -> None:
        """Forget a table, because another replica owns it."""
        for service in Service:
            self.begun(table, service)

    def _known(self, table: TableId, service: Service) -> _Newest | None:
        if (table, service) in self._newest:
            return self._newest[table, service]
        last = self._store.runs(table=table, service=service, states=[RunState.SUCCEEDED], limit=1)
        return next((_Newest(identity=run.identity, time=run.instant) for run in last if run.instant is not None), None)

    def _remember(self, table: TableId, service: Service, view: TableView) -> None:
        shown = view.timeline.last_completed(service)
        self._newest[table, service] = None if shown is None else _Newest(identity=str(view.identity), time=shown.time)


def has_vanished(timeline: Timeline, time: str, service: Service) -> bool:
    """Whether an instant that was completed is not completed any more, although no archive can have taken it.

    Archives take the oldest instants of a kind first, except savepoints, and never the newest of all. So an older
    instant that is still there proves that this one was not archived. The lack of anything newer proves it too.
    """
    if not timeline.oldest_leave_first:
        return False
    if any(instant.time == time and not instant.pending for instant in timeline.instants):
        return False
    if any(instant.pending and instant.time == time for instant in timeline.instants):
        return True  # it waits to be completed again
    if service in _NOT_ARCHIVED:
        return False
    completed = [i for i in timeline.instants if not i.pending and i.stands_for not in _NOT_ARCHIVED]
    kept = {instant.time for instant in timeline.instants if instant.stands_for is InstantKind.SAVEPOINT}
    older = [i for i in completed if i.time < time and i.time not in kept and _archived_alike(i.stands_for, service)]
    return bool(older) or not any(instant.time > time for instant in completed)


def _archived_alike(what: Service | InstantKind, service: Service) -> bool:
    return what is service if service in _ARCHIVED_BY_THEMSELVES else what not in _ARCHIVED_BY_THEMSELVES


def vanished(instant: str) -> str:
    """Return, for people, that a completed instant is gone."""
    return (
        f"instant {instant} was completed, and is neither on the timeline nor archived: the table was restored, rolled "
        "back or replaced by an old copy"
    )
