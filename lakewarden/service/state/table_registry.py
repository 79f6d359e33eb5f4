"""The registry: the registered tables, by id, by location, and by the names in hooks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, ValuesView
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakewarden.planners.hooks import Hint
from lakewarden.planners.model.instant import InstantKind, Service, Timeline
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.service.hooks import KnownTables
from lakewarden.service.model.run import Run

if TYPE_CHECKING:
    from lakewarden.service.store.sql.store import Store


@dataclass(frozen=True, kw_only=True, slots=True)
class _Edition:
    tables: Mapping[TableId, Table]
    locations: Mapping[str, TableId]
    hints: KnownTables


class TableRegistry(Mapping[TableId, Table]):
    """Only the control thread replaces the tables, all at once. Any thread may read. Two reads may see two editions.

    The settings of a table change only while it has no run. `held` are the tables with new settings, and those that
    were dropped, that wait for the end of their runs. No run of theirs begins meanwhile.
    """

    def __init__(self, tables: Iterable[Table]) -> None:
        self._edition = _edition(tables)
        self.held: frozenset[TableId] = frozenset()

    def __getitem__(self, table: TableId) -> Table:
        return self._edition.tables[table]

    def __iter__(self) -> Iterator[TableId]:
        return iter(self._edition.tables)

    def __len__(self) -> int:
        return len(self._edition.tables)

    def values(self) -> ValuesView[Table]:
        """Return the tables of one edition."""
        return self._edition.tables.values()

    @property
    def locations(self) -> Mapping[str, TableId]:
        """The tables by their locations."""
        return self._edition.locations

    def meant_by(self, hint: Hint) -> tuple[TableId, ...]:
        """Return the registered tables that a hint is about."""
        return self._edition.hints.meant_by(hint)

    def replace(self, tables: Iterable[Table]) -> None:
        """Replace all tables."""
        self._edition = _edition(tables)


def _edition(tables: Iterable[Table]) -> _Edition:
    by_id = {table.id: table for table in tables}
    return _Edition(
        tables=by_id,
        locations={table.location: table.id for table in by_id.values()},
        hints=KnownTables(by_id.values()),
    )


# Foreign executors: another program completes a plan of ours that no run of ours carried out.


class LeftPlans:
    """Remembers, from one decision on a table to the next, the plans of ours that no run carried out.

    It forgets them at a restart, and if another replica owns the table. A completion in that time is not noticed.
    """

    def __init__(self) -> None:
        self._left: dict[TableId, dict[str, Service]] = {}

    def completed_by_others(self, table: TableId, view: TableView) -> Mapping[Service, str]:
        """Return the services with a plan that was left and has been completed since, each with its instant."""
        left = self._left.get(table, {})
        completed = {instant.time for instant in view.timeline.instants if not instant.pending}
        return {service: time for time, service in left.items() if time in completed}

    def remember(
        self, table: TableId, view: TableView, ours: Mapping[Service, Collection[str]], runs: Collection[Run]
    ) -> None:
        """Note the pending plans of `ours` that none of `runs`, the active runs of the table, carries out."""
        carried = {run.instant for run in runs}
        planners = {run.id for run in runs}
        self._left[table] = {
            plan.time: service
            for service, times in ours.items()
            for plan in view.timeline.pending(service)
            if plan.time in times and plan.time not in carried and plan.author not in planners
        }

    def forget(self, table: TableId) -> None:
        """Forget the plans of a table. From now on another owner may rightly carry them out."""
        self._left.pop(table, None)

    def taken_up(self, run: Run) -> None:
        """Note that a run of ours is about to carry out a plan."""
        if run.instant is not None:
            self._left.get(run.table, {}).pop(run.instant, None)


# Vanished instants: an instant that was completed is no longer there, and no archive took it.
#
# Then another program restored the table, rolled it back, or replaced it by an old copy. What we know about it is
# wrong.

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
        self._reported: set[_Newest] = set()

    def recall(self, tables: Iterable[Table]) -> None:
        """Read from the store, in one go, what is not known of tables. Raises TemporaryError."""
        unknown = [
            (table.id, service)
            for table in tables
            for service in table.policies
            if (table.id, service) not in self._newest
        ]
        if not unknown:
            return
        runs = self._store.newest_succeeded(unknown)
        self._newest |= {key: _completed_by(runs.get(key)) for key in unknown}

    def vanished(self, table: Table, view: TableView, *, active: Collection[Service]) -> Mapping[Service, str]:
        """Return the services with a newest completed instant that has vanished since, each with that instant.

        Each is returned once. If the metadata cannot be read whole, nothing is returned. `active` services have a run
        that may complete another instant before the next observation. Raises TemporaryError.
        """
        if view.faults:
            return {}
        self.recall([table])
        lost = {}
        for service in table.policies:
            newest = self._newest[table.id, service]
            # a table that was created again has its own history
            if newest is None or newest.identity != str(view.identity):
                continue
            if newest not in self._reported and has_vanished(view.timeline, newest.time, service):
                self._reported.add(newest)
                lost[service] = newest.time
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

    def _remember(self, table: TableId, service: Service, view: TableView) -> None:
        instant = view.timeline.last_completed(service)
        self._newest[table, service] = (
            None if instant is None else _Newest(identity=str(view.identity), time=instant.time)
        )


def _completed_by(run: Run | None) -> _Newest | None:
    return None if run is None or run.instant is None else _Newest(identity=run.identity, time=run.instant)


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
