"""The runs of a store on a database, and the epochs of their leases."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any

import sqlalchemy as sa

from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import RunId, Service, Step
from lakewarden.planners.model.table import TableId
from lakewarden.planners.model.view import location_of
from lakewarden.service.model.replica import ReplicaId
from lakewarden.service.model.run import Run, RunState, SupersededError
from lakewarden.service.store.sql import database, schema
from lakewarden.service.store.sql.database import Database, from_now
from lakewarden.service.store.sql.replicas import check_dead, check_owns

_RECENT = 1000
_runs, _leases = schema.runs.c, schema.leases.c
_OPEN = _runs.ended_at.is_(None)


class SqlRuns(Database):
    """Keeps runs and epochs."""

    def request(self, run: Run) -> Run:
        """Add a QUEUED run, or return the run of the same (identity, service) that has not ended."""
        active = sa.select(schema.runs).where(_runs.identity == run.identity, _runs.service == run.service, _OPEN)
        with self._write() as connection:
            row = connection.execute(active).first()
            if row is not None:
                return _run(row)
            adding = database.insert(connection, schema.runs).values(
                number=database.next_number(connection), **_columns(run)
            )
            unless_there = adding.on_conflict_do_nothing(index_elements=["identity", "service"], index_where=_OPEN)
            if connection.execute(unless_there.returning(_runs.id)).first() is not None:
                return run
            row = connection.execute(active).first()  # another replica was faster, and its transaction has ended
            if row is not None:
                return _run(row)
        raise TemporaryError(f"the request of {run.service} on {run.table} met another", delay=timedelta(seconds=1))

    def take_lease(self, run: RunId, *, owner: ReplicaId, at: datetime) -> Run:
        """Take the lease of the (identity, service) of the run with a new, higher epoch. The run is RUNNING.

        Raises SupersededError if the run is no longer QUEUED, or if `owner` is dead or does not have the share of its
        table. Raises it, too, if another run on the same identity has another owner and has not ended. That run must be
        adopted and settled first.
        """
        with self._write() as connection:
            identity = _run_by_id(connection, run).identity
            check_owns(connection, owner, location_of(identity))
            of_the_table = sa.select(schema.runs).where(_runs.identity == identity, _OPEN).order_by(_runs.number)
            for other in connection.execute(of_the_table.with_for_update()).all():
                if other.owner not in (None, owner):
                    raise SupersededError(f"run {other.id} on the same table belongs to replica {other.owner}")
            row = _run_by_id(connection, run)
            if row.state is not RunState.QUEUED:
                raise SupersededError(f"run {run} is {row.state}, not QUEUED")
            epoch = _raise_epoch(connection, row, owner=owner, at=at)
            return _change(connection, run, state=RunState.RUNNING, owner=owner, epoch=epoch, started_at=at)

    def adopt(self, run: RunId, *, owner: ReplicaId) -> Run:
        """Take over a run that a dead owner began and that has not ended, with a new, higher epoch. The run is UNKNOWN.

        Raises SupersededError if it has ended or is QUEUED, or if its owner is alive. Raises it, too, if `owner` is
        dead or does not have the share of its table.
        """
        with self._write() as connection:
            before = _run_by_id(connection, run)
            if before.owner is not None:
                check_dead(connection, before.owner)
            check_owns(connection, owner, location_of(before.identity))
            row = _run_by_id(connection, run, hold=True)
            if row.state.ended or row.state is RunState.QUEUED:
                raise SupersededError(f"run {run} is {row.state}: there is nothing to take over")
            if row.owner != before.owner:
                raise SupersededError(f"run {run} has been taken over by replica {row.owner}")
            epoch = _raise_epoch(connection, row, owner=owner, at=from_now())
            return _change(connection, run, state=RunState.UNKNOWN, owner=owner, epoch=epoch)

    def progress(
        self,
        run: RunId,
        *,
        epoch: int,
        state: RunState | None = None,
        step: Step | None = None,
        instant: str | None = None,
        executor: str | None = None,
        application: str | None = None,
        figures: Mapping[str, int | float | str] | None = None,
    ) -> Run:
        """Store the progress of a run. Values that are None stay as they were.

        Raises SupersededError if `epoch` is not the newest of the lease, or the run has ended.
        """
        figures_document = None if figures is None else dict(figures)
        news: dict[str, Any] = {"state": state, "step": step, "instant": instant, "figures": figures_document}
        news |= {"executor": executor, "application": application}
        with self._write() as connection:
            row = _owned(connection, run, epoch)
            changes = {key: value for key, value in news.items() if value is not None}
            return _change(connection, run, **changes) if changes else row

    def end(
        self,
        run: RunId,
        *,
        epoch: int,
        state: RunState,
        outcome: str,
        at: datetime,
        figures: Mapping[str, int | float | str] | None = None,
    ) -> Run:
        """End a run. Raises SupersededError as `progress` does."""
        with self._write() as connection:
            _owned(connection, run, epoch)
            return _change(connection, run, state=state, outcome=outcome, ended_at=at, figures=dict(figures or {}))

    def epoch(self, *, identity: str, service: Service) -> int:
        """Return the newest epoch of a lease, or 0 if it was never taken."""
        with self._read() as connection:
            return _epoch(connection, identity, service)

    def run(self, run: RunId) -> Run | None:
        """Return one run."""
        with self._read() as connection:
            row = connection.execute(sa.select(schema.runs).where(_runs.id == run)).first()
            return None if row is None else _run(row)

    def run_beginning(self, text: str) -> Run | None:
        """Return the run with an id that begins with the text. None if there is none, or more than one."""
        query = sa.select(schema.runs).where(_runs.id.startswith(text, autoescape=True)).limit(2)
        with self._read() as connection:
            rows = list(connection.execute(query))
            return _run(rows[0]) if len(rows) == 1 else None

    def runs(
        self,
        *,
        table: TableId | None = None,
        service: Service | None = None,
        states: Collection[RunState] = (),
        before: RunId | None = None,
        limit: int = 100,
    ) -> Sequence[Run]:
        """Return runs, the newest first. No `states` means all. `before` leaves out that run, and all newer ones. If
        there is no such run, none is returned.
        """
        conditions = {"table": table, "service": service, "states": list(states) or None, "before": before}
        conditions = {name: value for name, value in conditions.items() if value is not None}
        with self._read() as connection:
            return [_run(row) for row in connection.execute(_newest_runs(*conditions), {**conditions, "limit": limit})]

    def newest_succeeded(self, services: Iterable[tuple[TableId, Service]]) -> Mapping[tuple[TableId, Service], Run]:
        """Return the newest run that has succeeded of services of tables, of those that have one."""
        query, states = _newest_runs("table", "service", "states"), [RunState.SUCCEEDED]
        newest = {}
        with self._read() as connection:
            for table, service in services:
                conditions = {"table": table, "service": service, "states": states, "limit": 1}
                for row in connection.execute(query, conditions):
                    newest[table, service] = _run(row)
        return newest

    def runs_at(self, table: TableId, at: datetime) -> Sequence[Run]:
        """Return the runs of a table that had been requested at a moment and had not ended, the oldest first."""
        open_then = _runs.ended_at.is_(None) | (_runs.ended_at > at)
        query = sa.select(schema.runs).where(_runs.table_id == table, _runs.created_at <= at, open_then)
        with self._read() as connection:
            return [_run(row) for row in connection.execute(query.order_by(_runs.number))]

    def active(self) -> Sequence[Run]:
        """Return every run that has not ended, the oldest first."""
        query = sa.select(schema.runs).where(_OPEN).order_by(_runs.number)
        with self._read() as connection:
            return [_run(row) for row in connection.execute(query)]

    def instants(self, *, identity: str, service: Service) -> frozenset[str]:
        """Return the instants that runs of ours planned or took up, the last thousand."""
        query = (
            sa.select(_runs.instant)
            .where(_runs.identity == identity, _runs.service == service, _runs.instant.is_not(None))
            .order_by(_runs.number.desc())
            .limit(_RECENT)
        )
        with self._read() as connection:
            return frozenset(connection.scalars(query))


def _columns(run: Run) -> dict[str, Any]:
    values = {name: getattr(run, name) for name in Run.__dataclass_fields__ if name != "table"}
    return {**values, "table_id": run.table, "figures": dict(run.figures)}


def _run(row: sa.Row[Any]) -> Run:
    return Run(
        id=RunId(row.id),
        table=TableId(row.table_id),
        identity=row.identity,
        service=Service(row.service),
        state=RunState(row.state),
        reason=row.reason,
        requested_by=row.requested_by,
        created_at=row.created_at,
        instant=row.instant,
        epoch=row.epoch,
        step=None if row.step is None else Step(row.step),
        started_at=row.started_at,
        ended_at=row.ended_at,
        outcome=row.outcome,
        figures=row.figures,
        owner=None if row.owner is None else ReplicaId(row.owner),
        executor=row.executor,
        application=row.application,
        rewrite_all=row.rewrite_all,
    )


def _run_by_id(connection: sa.Connection, run: RunId, *, hold: bool = False) -> Run:
    """Return a run. With `hold` it is locked until the transaction ends."""
    query = sa.select(schema.runs).where(_runs.id == run)
    row = connection.execute(query.with_for_update() if hold else query).first()
    if row is None:
        raise SupersededError(f"there is no run {run} in the store")
    return _run(row)


def _epoch(connection: sa.Connection, identity: str, service: Service) -> int:
    query = sa.select(_leases.epoch).where(_leases.identity == identity, _leases.service == service)
    return connection.scalar(query) or 0


def _raise_epoch(connection: sa.Connection, run: Run, *, owner: ReplicaId, at: datetime | sa.ColumnElement[Any]) -> int:
    """Give the lease of a run to an owner, and return its new epoch."""
    taking = database.insert(connection, schema.leases).values(
        identity=run.identity, service=run.service, epoch=1, owner=owner, claimed_at=at
    )
    taken = taking.on_conflict_do_update(
        index_elements=["identity", "service"],
        set_={"epoch": _leases.epoch + 1, "owner": taking.excluded.owner, "claimed_at": taking.excluded.claimed_at},
    )
    return int(connection.execute(taken.returning(_leases.epoch)).scalar_one())


def _owned(connection: sa.Connection, run: RunId, epoch: int) -> Run:
    row = _run_by_id(connection, run, hold=True)
    if row.state.ended:
        raise SupersededError(f"run {run} has ended: {row.state}")
    newest = _epoch(connection, row.identity, row.service)
    # A run that was never taken has epoch 0 and no lease. It may be ended, nothing more.
    if epoch != row.epoch or (row.epoch and row.epoch != newest):
        raise SupersededError(f"run {run} has epoch {epoch}, its lease is at {newest}")
    return row


def _change(connection: sa.Connection, run: RunId, **news: Any) -> Run:
    changing = sa.update(schema.runs).where(_runs.id == run).values(**news).returning(*schema.runs.c)
    return _run(connection.execute(changing).one())


@cache
def _newest_runs(*names: str) -> sa.Select[Any]:
    """Return the query of runs with these conditions. To build it takes longer than to execute it."""
    alias = schema.runs.alias()
    since = sa.select(alias.c.number).where(alias.c.id == sa.bindparam("before")).scalar_subquery()
    conditions = {
        "table": _runs.table_id == sa.bindparam("table"),
        "service": _runs.service == sa.bindparam("service"),
        "states": _runs.state.in_(sa.bindparam("states", expanding=True)),
        "before": _runs.number < since,
    }
    query = sa.select(schema.runs).where(*(conditions[name] for name in names))
    return query.order_by(_runs.number.desc()).limit(sa.bindparam("limit"))
