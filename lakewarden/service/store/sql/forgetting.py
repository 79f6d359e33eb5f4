"""The deletion of old rows in steps. Each step is a short transaction of its own.

A statement over a whole history exceeds every limit on statements, and blocks other writers while it runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from itertools import islice

import sqlalchemy as sa

from lakewarden.planners.model.table import TableId
from lakewarden.service.store.port import UNSEEN_AT_LEAST
from lakewarden.service.store.sql import schema
from lakewarden.service.store.sql.database import Database
from lakewarden.service.store.sql.dialects import put
from lakewarden.service.store.sql.replicas import ALIVE

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
        """Delete in steps. After each step yield the number of deleted runs."""
        before, unseen = at - keep, at - max(keep, UNSEEN_AT_LEAST)
        yield from self._note(registered, at)
        yield from self._forget_runs(before=before, unseen=unseen)
        yield from self._forget_tables(unseen=unseen)
        yield from self._forget_leases(before=unseen)
        yield self._forget_replicas(before=before)

    def _note(self, registered: Mapping[TableId, str], at: datetime) -> Iterator[int]:
        """Note the tables that are registered now, and those that only have decisions."""
        decided = sa.select(schema.decisions.c.table_id).distinct()
        known = sa.select(_seen.table_id)
        with self._write() as connection:
            newest = connection.scalar(sa.select(sa.func.max(_seen.seen_at)))
            if newest is not None and newest < at - UNSEEN_AT_LEAST:  # no replica was here to register tables
                connection.execute(sa.update(schema.registered).values(seen_at=at))
            unknown = connection.scalars(decided.where(schema.decisions.c.table_id.not_in(known))).all()
            put(connection, schema.registered, [{"table_id": one, "location": "", "seen_at": at} for one in unknown])
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
            known = sa.select(_seen.location)
            connection.execute(sa.delete(schema.dirty).where(schema.dirty.c.location.not_in(known)))
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
