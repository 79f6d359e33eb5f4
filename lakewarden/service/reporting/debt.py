"""Points of debt: what had piled up in the tables of this replica, on a grid of minutes in UTC."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

import structlog

from lakewarden.executors.edge import edge
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.service.config.daemon.history import HistorySettings
from lakewarden.service.control.plane import ControlPlane, TableStatus
from lakewarden.service.model.history import Debt, DebtPoint, finest_for, grain_of
from lakewarden.service.store.history import HistoryStore

log = structlog.get_logger(__name__)

MANY_TABLES = 1000
"""With more tables the fleet is measured every five minutes, not every minute."""

_MINUTE = timedelta(minutes=1)
_NOTHING = Debt()


class DebtSampler:
    """Measures the tables that have a view here, and stores the points. Not thread-safe."""

    def __init__(self, plane: ControlPlane, store: HistoryStore, settings: HistorySettings, *, replica: str) -> None:
        self._plane = plane
        self._store = store
        self._settings = settings
        self._replica = replica
        self._is_large = False
        self._measured: dict[TableId, tuple[TableView, Mapping[Service, Debt]]] = {}

    def sample(self, at: datetime) -> int:
        """Store the points of the minute `at`, if there are any, and return how many. Raises TemporaryError."""
        grain = grain_of(at)
        if grain is None or (self._is_large and grain == 1):
            return 0
        statuses = self._plane.tables()
        self._is_large = len(statuses) > MANY_TABLES
        seen = {status.table.id: self._debt_of(status) for status in statuses if status.view is not None}
        self._measured = {table: kept for table, kept in self._measured.items() if table in seen}
        if not seen:
            return 0
        points = [DebtPoint(at=at, grain=grain, replica=self._replica, tables=len(seen), services=_sum(seen))]
        finest = finest_for(len(statuses), points=self._settings.debt_points, keep=self._settings.keep)
        if grain >= finest:
            points += [DebtPoint(at=at, grain=grain, table=table, services=debt) for table, debt in seen.items()]
        self._store.keep_debt(points)
        return len(points)

    def _debt_of(self, status: TableStatus) -> Mapping[Service, Debt]:
        table, view = status.table, status.view
        known = self._measured.get(table.id)
        if view is None or (known is not None and known[0] is view):
            return {} if known is None else known[1]
        found = debt_of(view, table)
        self._measured[table.id] = view, found
        return found


def debt_of(view: TableView, table: Table) -> Mapping[Service, Debt]:
    """Return what has piled up for the services that have a policy. Services without debt are left out."""
    found = {service: _of_service(view, service) for service in sorted(table.policies)}
    return {service: debt for service, debt in found.items() if debt != _NOTHING}


def _of_service(view: TableView, service: Service) -> Debt:
    pending = view.timeline.pending(service)
    backlog = view.backlogs.get(service)
    return Debt(
        pending=len(pending),
        commits=0 if backlog is None else backlog.commits,
        files=0 if backlog is None else backlog.files or 0,
        bytes=0 if backlog is None else backlog.bytes or 0,
        oldest=min((plan.requested_at for plan in pending), default=None),
    )


def _sum(seen: Mapping[TableId, Mapping[Service, Debt]]) -> Mapping[Service, Debt]:
    total: dict[Service, Debt] = {}
    for services in seen.values():
        for service, debt in services.items():
            total[service] = total.get(service, _NOTHING) + debt
    return total


@contextmanager
def sampling(sampler: DebtSampler, clock: Clock) -> Iterator[None]:
    """Sample at each minute inside the `with` block, in a thread."""
    over = threading.Event()
    thread = threading.Thread(target=_sample_on, args=(sampler, clock, over), name="debt", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(timeout=5)


def _sample_on(sampler: DebtSampler, clock: Clock, over: threading.Event) -> None:
    while True:
        due = next_minute(clock.now())
        if over.wait((due - clock.now()).total_seconds()):
            return
        if clock.now() < due:  # the clock was set back
            continue
        with edge("debt_not_measured"):
            try:
                sampler.sample(due)
            except TemporaryError as error:
                log.warning("store_unavailable", error=str(error))


def next_minute(now: datetime) -> datetime:
    """Return the next full minute."""
    return now.replace(second=0, microsecond=0) + _MINUTE


def points_of(points: Sequence[DebtPoint], service: Service | None) -> list[tuple[datetime, int, Debt]]:
    """Return for each moment how many tables were measured, and their debt: of one service, or of all (None).

    The replicas that measured at one moment had different tables.
    """
    moments: dict[datetime, tuple[int, Debt]] = {}
    for point in points:
        tables, debt = moments.get(point.at, (0, _NOTHING))
        for of, one in point.services.items():
            if service in (None, of):
                debt = debt + one
        moments[point.at] = tables + point.tables, debt
    return [(at, tables, debt) for at, (tables, debt) in sorted(moments.items())]
