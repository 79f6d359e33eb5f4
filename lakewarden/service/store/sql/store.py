"""The whole store, on SQLite and on PostgreSQL: runs, epochs of leases, decisions, pauses and approvals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

import sqlalchemy as sa

from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import TableId
from lakewarden.service.model.access import Act, ActKind, KeyRow, Role
from lakewarden.service.model.registrations import RegistrationRow
from lakewarden.service.store.sql import schema
from lakewarden.service.store.sql.database import Database, put
from lakewarden.service.store.sql.notes import SqlHistory, SqlNotes
from lakewarden.service.store.sql.replicas import ALIVE, SqlReplicas
from lakewarden.service.store.sql.runs import SqlRuns

# The API keys in a store on a database.

_key = schema.api_keys.c


class SqlKeys(Database):
    """Keeps the hashes of API keys."""

    def keep_api_key(self, row: KeyRow) -> None:
        """Add an API key."""
        with self._write() as connection:
            connection.execute(sa.insert(schema.api_keys).values(asdict(row) | {"tables": list(row.tables)}))

    def revoke_api_key(self, key: str, *, at: datetime) -> bool:
        """Revoke the API key with this id. Return False if there is none, or if it was revoked before."""
        revoked = sa.update(schema.api_keys).where(_key.id == key, _key.revoked_at.is_(None)).values(revoked_at=at)
        with self._write() as connection:
            return connection.execute(revoked).rowcount > 0

    def api_keys(self) -> Sequence[KeyRow]:
        """Return every API key, also revoked and expired ones, the oldest first."""
        query = sa.select(schema.api_keys).order_by(_key.created_at, _key.id)
        with self._read() as connection:
            return [
                KeyRow(**{**row._mapping, "role": Role(row.role), "tables": tuple(row.tables)})  # noqa: SLF001
                for row in connection.execute(query)
            ]


# The audit log in a store on a database, the registered tables, and the answers to requests that act.

_act = schema.acts.c
_registration = schema.registrations.c


class SqlActs(Database):
    """Keeps acts, and never changes one."""

    def note_act(self, act: Act) -> None:
        """Add an act to the audit log, under the next number."""
        with self._write() as connection:
            _note(connection, act)

    def acts(self, *, table: TableId | None = None, before: int | None = None, limit: int = 100) -> Sequence[Act]:
        """Return acts, the newest first: of a table, and with numbers below `before`, if these are given."""
        query = sa.select(schema.acts).order_by(_act.number.desc()).limit(limit)
        if table is not None:
            query = query.where(_act.table_id == table)
        if before is not None:
            query = query.where(_act.number < before)
        with self._read() as connection:
            return [_read(row) for row in connection.execute(query)]

    def forget_acts(self, *, before: datetime, most: int) -> int:
        """Delete the oldest acts from before that time, `most` of them at once. Return how many."""
        old = sa.select(_act.number).where(_act.at < before).order_by(_act.number).limit(most)
        with self._write() as connection:
            numbers = connection.scalars(old).all()
            connection.execute(sa.delete(schema.acts).where(_act.number.in_(numbers)))
            return len(numbers)


def _read(row: sa.Row[Any]) -> Act:
    values = dict(row._mapping)  # noqa: SLF001 - the public name in SQLAlchemy
    table, service = values.pop("table_id"), values.pop("service")
    return Act(
        **{**values, "kind": ActKind(row.kind)},
        table=None if table is None else TableId(table),
        service=None if service is None else Service(service),
    )


def _note(connection: sa.Connection, act: Act) -> None:
    values = asdict(act)
    del values["number"]
    connection.execute(sa.insert(schema.acts).values(table_id=values.pop("table"), **values))


class SqlRegistrations(Database):
    """Keeps one row for each table that was ever registered over the API."""

    def keep_registration(self, row: RegistrationRow, *, act: Act) -> bool:
        """Keep the registration of a table with its act in the audit log, both or none. It replaces the previous one.

        Return False, and keep nothing, if the newest change of any registration is not the one before `row.number`.
        """
        newest = sa.select(sa.func.coalesce(sa.func.max(_registration.number), 0))
        with self._write() as connection:
            connection.execute(sa.select(schema.store.c.identity).with_for_update())  # one replica after the other
            if connection.scalar(newest) != row.number - 1:
                return False
            values = asdict(row)
            put(connection, schema.registrations, [{"table_id": values.pop("table"), **values}])
            _note(connection, act)
            return True

    def registrations(self, *, after: int = 0) -> Sequence[RegistrationRow]:
        """Return the registrations with a number above `after`, the oldest first. Removed tables are among them."""
        query = sa.select(schema.registrations).where(_registration.number > after).order_by(_registration.number)
        with self._read() as connection:
            return [
                RegistrationRow(table=TableId(row.table_id), entry=row.entry, number=row.number, by=row.by, at=row.at)
                for row in connection.execute(query)
            ]


# The deletion of old rows in steps. Each step is a short transaction of its own.
#
# A statement over a whole history exceeds every limit on statements, and blocks other writers while it runs.

UNSEEN_AT_LEAST = timedelta(days=1)
"""The rows of a table are deleted only after no replica has registered the table for so long."""

STEP = 200
"""How many rows one step reads. On a disk that synchronises this takes some ten milliseconds."""

_runs, _leases, _replicas, _seen = schema.runs.c, schema.leases.c, schema.replicas.c, schema.registered.c
_ABOUT_TABLES = (
    schema.decisions,
    schema.decision_changes,
    schema.service_states,
    schema.approvals,
    schema.rewrites,
    schema.lock_proofs,
    schema.writer_signs,
    schema.folders,
)


class SqlForgetting(Database):
    """Deletes old rows."""

    def forget(self, *, registered: Mapping[TableId, str], at: datetime, keep: timedelta) -> Iterator[int]:
        """Delete what is older than `keep` at the time `at`, step by step. After each step yield the number of deleted
        runs.

        Each step is a short transaction. So a caller can pause between steps without delaying others, and can stop
        early. Runs are deleted that ended before. The last run of each table and service stays, and so do runs that
        have not ended. `registered` are the tables that the caller knows now, with their locations. If no replica has
        named a table here for `keep`, and at least a day, everything of it is deleted but its pause and the runs that
        have not ended. If no replica has named any table for a day, all tables count as named now.
        """
        before, unseen = at - keep, at - max(keep, UNSEEN_AT_LEAST)
        yield from self._note(registered, at)
        yield from self._forget_runs(before=before, unseen=unseen)
        yield from self._forget_tables(unseen=unseen)
        yield from self._forget_leases(before=unseen)
        yield self._forget_replicas(before=before)

    def _note(self, registered: Mapping[TableId, str], at: datetime) -> Iterator[int]:
        """Note the tables that are registered now, and those that only have decisions."""
        decided = sa.select(schema.decisions.c.table_id).distinct()
        ids = sa.select(_seen.table_id)
        with self._write() as connection:
            newest = connection.scalar(sa.select(sa.func.max(_seen.seen_at)))
            if newest is not None and newest < at - UNSEEN_AT_LEAST:  # no replica was here to register tables
                connection.execute(sa.update(schema.registered).values(seen_at=at))
            unknown = connection.scalars(decided.where(schema.decisions.c.table_id.not_in(ids))).all()
            put(
                connection, schema.registered, [{"table_id": table, "location": "", "seen_at": at} for table in unknown]
            )
        rows = iter([{"table_id": table, "location": place, "seen_at": at} for table, place in registered.items()])
        while some := [*islice(rows, STEP)]:
            with self._write() as connection:
                put(connection, schema.registered, some)
            yield 0

    def _forget_runs(self, *, before: datetime, unseen: datetime) -> Iterator[int]:
        """Go through the runs by their numbers, the oldest first, up to those that were requested after `before`."""
        newer = schema.runs.alias()
        followed = sa.exists().where(
            newer.c.table_id == _runs.table_id, newer.c.service == _runs.service, newer.c.number > _runs.number
        )
        of_no_table = _runs.table_id.in_(sa.select(_seen.table_id).where(_seen.seen_at < unseen))
        after = -1
        while True:
            step = sa.select(_runs.number, _runs.created_at, _runs.ended_at).where(_runs.number > after)
            with self._write() as connection:
                rows = connection.execute(step.order_by(_runs.number).limit(STEP)).all()
                if not any(min(row.created_at, row.ended_at or row.created_at) < before for row in rows):
                    return
                first, after = rows[0].number, rows[-1].number
                old = sa.delete(schema.runs).where(_runs.number.between(first, after), _runs.ended_at < before)
                forgotten = connection.execute(old.where(followed | of_no_table)).rowcount
            yield forgotten

    def _forget_tables(self, *, unseen: datetime) -> Iterator[int]:
        """Delete the rows of tables that no replica has registered for long. Pauses stay, because operators end
        them.
        """
        has_runs = sa.exists().where(_runs.table_id == _seen.table_id)
        gone = sa.select(_seen.table_id).where(_seen.seen_at < unseen, ~has_runs).order_by(_seen.table_id).limit(STEP)
        while True:
            with self._write() as connection:
                tables = connection.scalars(gone).all()
                for notes in (*_ABOUT_TABLES, schema.registered):
                    connection.execute(sa.delete(notes).where(notes.c.table_id.in_(tables)))
            if not tables:
                break
            yield 0
        with self._write() as connection:
            locations = sa.select(_seen.location)
            connection.execute(sa.delete(schema.dirty).where(schema.dirty.c.location.not_in(locations)))
        yield 0

    def _forget_leases(self, *, before: datetime) -> Iterator[int]:
        """Delete the leases without runs. A late result of their owner is rejected, because its run is not known."""
        has_runs = sa.exists().where(_runs.identity == _leases.identity, _runs.service == _leases.service)
        key = sa.tuple_(_leases.identity, _leases.service)
        after = ("", "")
        while True:
            step = sa.select(_leases.identity, _leases.service).where(key > sa.tuple_(*after)).order_by(*key)
            with self._write() as connection:
                rows = connection.execute(step.limit(STEP)).all()
                if not rows:
                    return
                last = (rows[-1].identity, rows[-1].service)
                some = sa.delete(schema.leases).where(key > sa.tuple_(*after), key <= sa.tuple_(*last))
                connection.execute(some.where(_leases.claimed_at < before, ~has_runs))
            after = last
            yield 0

    def _forget_replicas(self, *, before: datetime) -> int:
        """Delete dead replicas, if they have no run that has not ended."""
        owners = sa.select(_runs.owner).where(_runs.ended_at.is_(None), _runs.owner.is_not(None))
        dead = sa.delete(schema.replicas).where(
            _replicas.joined_at < before, ~ALIVE, _replicas.id.not_in(owners.scalar_subquery())
        )
        with self._write() as connection:
            connection.execute(dead)
        return 0


class Store(SqlRuns, SqlReplicas, SqlNotes, SqlHistory, SqlKeys, SqlActs, SqlRegistrations, SqlForgetting):
    """Keeps what must survive the daemon. Every method is durable when it returns.

    Raises TemporaryError if the database cannot be reached or written.

    Replicas: every daemon joins under a new id and renews its lease. All its shares and runs depend on this one lease.
    The database judges the lease on its own clock. A share is a table, by its canonical location, that one replica
    owns. Only the replica with the share of a table can take the leases of its runs.
    """
