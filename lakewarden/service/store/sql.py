"""The store on a database: SQLite today, through SQLAlchemy and with Alembic's migrations."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import alembic.command
import alembic.config
import alembic.util
import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

from lakewarden.executors.contract import Step
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import TableId
from lakewarden.service.store import schema
from lakewarden.service.store.port import ApprovalRow, DecisionRow, Run, RunState, SupersededError

_RECENT = 1000


def open_sqlite(path: Path) -> SqlStore:
    """Open the store in a SQLite file, making or upgrading it.

    Write-ahead log with full synchronisation: what is acknowledged survives a power cut. Raises PermanentError
    if the file was written by a newer Lakewarden or is no SQLite database.
    """
    engine = sa.create_engine(sa.URL.create("sqlite", database=str(path)), connect_args={"timeout": 30})
    sa.event.listen(engine, "connect", _configure_connection)
    sa.event.listen(engine, "begin", _begin)
    try:
        _migrate(engine)
    except alembic.util.CommandError as foreign:
        engine.dispose()
        raise PermanentError(
            f"the store {path} was written by a newer Lakewarden: run that version, or point data_dir elsewhere"
        ) from foreign
    except sa.exc.DatabaseError as broken:
        engine.dispose()
        raise PermanentError(f"the store {path} cannot be opened: {broken.orig}") from broken
    return SqlStore(engine)


def _configure_connection(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None  # SQLAlchemy's `begin` event decides how a transaction begins
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")


def _begin(connection: sa.Connection) -> None:
    writing = connection.get_execution_options().get("writing", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


def _migrate(engine: sa.Engine) -> None:
    config = alembic.config.Config()
    config.set_main_option("script_location", "lakewarden.service.store:migrations")
    config.set_main_option("path_separator", "os")
    with engine.execution_options(writing=True).begin() as connection:
        config.attributes["connection"] = connection
        alembic.command.upgrade(config, "head")


class SqlStore:
    """Implements the store's contract with SQL that SQLite and PostgreSQL both speak."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._writing_engine = engine.execution_options(writing=True)

    def request(self, run: Run) -> Run:
        """Add a QUEUED run, or return the active one of the same (identity, service)."""
        with self._write() as connection:
            active = connection.execute(
                sa.select(schema.runs).where(
                    schema.runs.c.identity == run.identity,
                    schema.runs.c.service == run.service,
                    schema.runs.c.ended_at.is_(None),
                )
            ).first()
            if active is not None:
                return _run(active)
            newest = connection.scalar(sa.select(sa.func.max(schema.runs.c.number)))
            connection.execute(sa.insert(schema.runs).values(number=(newest or 0) + 1, **_columns(run)))
        return run

    def claim(self, run: RunId, *, owner: str, at: datetime) -> Run:
        """Take the lease with a higher epoch; the run is RUNNING."""
        with self._write() as connection:
            row = _one(connection, run)
            if row.state is not RunState.QUEUED:
                raise SupersededError(f"run {run} is {row.state}, not QUEUED")
            taken = sqlite.insert(schema.leases).values(
                identity=row.identity, service=row.service, epoch=1, owner=owner, claimed_at=at
            )
            epoch = connection.scalar(
                taken.on_conflict_do_update(
                    index_elements=["identity", "service"],
                    set_={"epoch": schema.leases.c.epoch + 1, "owner": owner, "claimed_at": at},
                ).returning(schema.leases.c.epoch)
            )
            return _change(connection, run, state=RunState.RUNNING, epoch=epoch, started_at=at)

    def progress(
        self,
        run: RunId,
        *,
        epoch: int,
        state: RunState | None = None,
        step: Step | None = None,
        instant: str | None = None,
    ) -> Run:
        """Note how far a run has come."""
        news = {"state": state, "step": step, "instant": instant}
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
        """End a run."""
        with self._write() as connection:
            _owned(connection, run, epoch)
            return _change(connection, run, state=state, outcome=outcome, ended_at=at, figures=dict(figures or {}))

    def epoch(self, *, identity: str, service: Service) -> int:
        """Return the newest epoch of a lease; 0 if it was never claimed."""
        with self._read() as connection:
            return _epoch(connection, identity, service)

    def run(self, run: RunId) -> Run | None:
        """Return one run."""
        with self._read() as connection:
            row = connection.execute(sa.select(schema.runs).where(schema.runs.c.id == run)).first()
            return None if row is None else _run(row)

    def runs(
        self,
        *,
        table: TableId | None = None,
        service: Service | None = None,
        states: Collection[RunState] = (),
        limit: int = 100,
    ) -> Sequence[Run]:
        """Return runs, the newest first."""
        query = sa.select(schema.runs).order_by(schema.runs.c.number.desc()).limit(limit)
        if table is not None:
            query = query.where(schema.runs.c.table_id == table)
        if service is not None:
            query = query.where(schema.runs.c.service == service)
        if states:
            query = query.where(schema.runs.c.state.in_(states))
        with self._read() as connection:
            return [_run(row) for row in connection.execute(query)]

    def active(self) -> Sequence[Run]:
        """Return every run that has not ended, the oldest first."""
        query = sa.select(schema.runs).where(schema.runs.c.ended_at.is_(None)).order_by(schema.runs.c.number)
        with self._read() as connection:
            return [_run(row) for row in connection.execute(query)]

    def instants(self, *, identity: str, service: Service) -> frozenset[str]:
        """Return the instants that runs of ours planned or took up, the last thousand."""
        query = (
            sa.select(schema.runs.c.instant)
            .where(
                schema.runs.c.identity == identity,
                schema.runs.c.service == service,
                schema.runs.c.instant.is_not(None),
            )
            .order_by(schema.runs.c.number.desc())
            .limit(_RECENT)
        )
        with self._read() as connection:
            return frozenset(connection.scalars(query))

    def decided(self, rows: Sequence[DecisionRow]) -> None:
        """Keep decisions, each in place of the one before."""
        with self._write() as connection:
            for row in rows:
                values = {
                    "decision": row.decision,
                    "reason": row.reason,
                    "remedy": row.remedy,
                    "again_at": row.again_at,
                    "decided_at": row.decided_at,
                }
                statement = sqlite.insert(schema.decisions).values(table_id=row.table, service=row.service, **values)
                connection.execute(statement.on_conflict_do_update(index_elements=["table_id", "service"], set_=values))

    def decisions(self, table: TableId) -> Sequence[DecisionRow]:
        """Return the last decision of each service of a table."""
        query = (
            sa.select(schema.decisions).where(schema.decisions.c.table_id == table).order_by(schema.decisions.c.service)
        )
        with self._read() as connection:
            return [
                DecisionRow(
                    table=TableId(row.table_id),
                    service=Service(row.service),
                    decision=row.decision,
                    reason=row.reason,
                    remedy=row.remedy,
                    again_at=row.again_at,
                    decided_at=row.decided_at,
                )
                for row in connection.execute(query)
            ]

    def pause(self, table: TableId | None, *, reason: str, at: datetime) -> None:
        """Pause a table, or everything where `table` is None."""
        values = {"reason": reason, "paused_at": at}
        statement = sqlite.insert(schema.pauses).values(table_id=table or schema.EVERYTHING, **values)
        with self._write() as connection:
            connection.execute(statement.on_conflict_do_update(index_elements=["table_id"], set_=values))

    def resume(self, table: TableId | None) -> None:
        """End a pause."""
        with self._write() as connection:
            connection.execute(sa.delete(schema.pauses).where(schema.pauses.c.table_id == (table or schema.EVERYTHING)))

    def pauses(self) -> Mapping[TableId | None, str]:
        """Return the pauses in force, each with its reason."""
        with self._read() as connection:
            rows = connection.execute(sa.select(schema.pauses)).all()
        return {(TableId(row.table_id) if row.table_id else None): row.reason for row in rows}

    def keep_approval(self, row: ApprovalRow) -> None:
        """Keep a question for approval, or its answer."""
        values = {name: getattr(row, name) for name in ApprovalRow.__dataclass_fields__ if name != "table"}
        statement = sqlite.insert(schema.approvals).values(table_id=row.table, **values)
        with self._write() as connection:
            connection.execute(statement.on_conflict_do_update(index_elements=["table_id", "service"], set_=values))

    def forget_approval(self, table: TableId, service: Service) -> None:
        """Drop what was asked and approved."""
        kept = schema.approvals.c
        with self._write() as connection:
            connection.execute(sa.delete(schema.approvals).where(kept.table_id == table, kept.service == service))

    def approvals(self) -> Sequence[ApprovalRow]:
        """Return every question for approval."""
        with self._read() as connection:
            return [
                ApprovalRow(
                    table=TableId(row.table_id),
                    service=Service(row.service),
                    identity=row.identity,
                    instant=row.instant,
                    files=row.files,
                    files_in_table=row.files_in_table,
                    partitions=row.partitions,
                    asked_at=row.asked_at,
                    approved_by=row.approved_by,
                    approved_at=row.approved_at,
                )
                for row in connection.execute(sa.select(schema.approvals))
            ]

    def forget(self, *, before: datetime) -> int:
        """Delete ended runs that ended before a time, keeping each service's last one."""
        kept = sa.select(sa.func.max(schema.runs.c.number)).group_by(schema.runs.c.identity, schema.runs.c.service)
        statement = sa.delete(schema.runs).where(
            schema.runs.c.ended_at < before, schema.runs.c.number.not_in(kept.scalar_subquery())
        )
        with self._write() as connection:
            return connection.execute(statement).rowcount

    def close(self) -> None:
        """Release the database."""
        self._engine.dispose()

    @contextmanager
    def _read(self) -> Iterator[sa.Connection]:
        try:
            with self._engine.begin() as connection:
                yield connection
        except sa.exc.OperationalError as trouble:
            raise _translated(trouble) from trouble

    @contextmanager
    def _write(self) -> Iterator[sa.Connection]:
        try:
            with self._writing_engine.begin() as connection:
                yield connection
        except sa.exc.OperationalError as trouble:
            raise _translated(trouble) from trouble


def _translated(trouble: sa.exc.OperationalError) -> TemporaryError:
    return TemporaryError(f"the store does not answer: {trouble.orig}", delay=timedelta(seconds=5))


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
    )


def _one(connection: sa.Connection, run: RunId) -> Run:
    row = connection.execute(sa.select(schema.runs).where(schema.runs.c.id == run)).first()
    if row is None:
        raise SupersededError(f"there is no run {run} in the store")
    return _run(row)


def _epoch(connection: sa.Connection, identity: str, service: Service) -> int:
    query = sa.select(schema.leases.c.epoch).where(
        schema.leases.c.identity == identity, schema.leases.c.service == service
    )
    return connection.scalar(query) or 0


def _owned(connection: sa.Connection, run: RunId, epoch: int) -> Run:
    row = _one(connection, run)
    if row.state.ended:
        raise SupersededError(f"run {run} has ended: {row.state}")
    newest = _epoch(connection, row.identity, row.service)
    # A run that was never claimed has epoch 0 and no lease of its own: it may be ended, nothing more.
    if epoch != row.epoch or (row.epoch and row.epoch != newest):
        raise SupersededError(f"run {run} has epoch {epoch}, its lease is at {newest}")
    return row


def _change(connection: sa.Connection, run: RunId, **news: Any) -> Run:
    row = connection.execute(
        sa.update(schema.runs).where(schema.runs.c.id == run).values(**news).returning(*schema.runs.c)
    ).one()
    return _run(row)
