"""The replicas of a store on a database: their leases, their shares, and the tables that are marked dirty for them.

A transaction that locks several rows locks them in this order: the row of the store, replicas, shares, runs, leases.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta

import sqlalchemy as sa

from lakewarden.service.model.replica import Replica, ReplicaId
from lakewarden.service.model.run import SupersededError
from lakewarden.service.store.sharing import shared_out
from lakewarden.service.store.sql import database, schema
from lakewarden.service.store.sql.database import Database, from_now

_replicas, _shares, _dirty = schema.replicas.c, schema.shares.c, schema.dirty.c
_LAPSED = _replicas.lease_until <= from_now()
ALIVE = _replicas.ended_at.is_(None) & (_replicas.lease_until.is_(None) | ~_LAPSED)
_AT_ONCE = 1000
"""How many rows one statement names."""


class SqlReplicas(Database):
    """Keeps replicas and shares."""

    def identity(self) -> str:
        """Return the identity of this store. It never changes, and all replicas on the store see the same one."""
        with self._read() as connection:
            return str(connection.execute(sa.select(schema.store.c.identity)).scalar_one())

    def check_writable(self) -> None:
        """Write something that changes nothing. Raises TemporaryError if the store cannot be written."""
        with self._write_one() as connection:
            connection.execute(sa.update(schema.store).values(identity=schema.store.c.identity))

    def join(self, replica: Replica, *, lease: timedelta | None) -> None:
        """Join as a replica until `lease` from now on the clock of the database. None: until the replica leaves.

        Without a lease the caller has proved that it is the only daemon on the store. Every other replica has ended.
        """
        with self._write() as connection:
            _hold_membership(connection)
            if lease is None:
                others = sa.update(schema.replicas).where(_replicas.id != replica.id, _replicas.ended_at.is_(None))
                connection.execute(others.values(ended_at=from_now()))
            # A call without an answer is made again. A lease that has ended since stays ended.
            joining = database.insert(connection, schema.replicas).on_conflict_do_nothing()
            connection.execute(
                joining.values(
                    id=replica.id,
                    url=replica.url,
                    joined_at=from_now(),
                    lease_until=None if lease is None else from_now(lease),
                )
            )

    def renew(self, replica: ReplicaId, *, lease: timedelta) -> bool:
        """Extend a lease to `lease` from now. Return False if it had ended or never existed. An ended lease stays
        ended.
        """
        until = sa.case((_replicas.lease_until.is_(None), sa.null()), else_=from_now(lease))
        renewal = sa.update(schema.replicas).where(_replicas.id == replica, ALIVE).values(lease_until=until)
        with self._renew() as connection:
            return connection.execute(renewal).rowcount == 1

    def leave(self, replica: ReplicaId) -> None:
        """End the lease of the replica and give its shares back at once. Only after every JVM of it is gone."""
        with self._write() as connection:
            _hold_membership(connection)
            ending = sa.update(schema.replicas).where(_replicas.id == replica, _replicas.ended_at.is_(None))
            connection.execute(ending.values(ended_at=from_now()))
            connection.execute(sa.delete(schema.shares).where(_shares.replica == replica))

    def replicas(self) -> Sequence[Replica]:
        """Return every replica that was not deleted, also the dead ones."""
        columns = (_replicas.id, _replicas.url, ALIVE.label("alive"), _replicas.lease_until, from_now().label("now"))
        query = sa.select(*columns).order_by(_replicas.joined_at, _replicas.id)
        with self._read() as connection:
            return [
                Replica(
                    id=ReplicaId(row.id),
                    url=row.url,
                    alive=bool(row.alive),
                    lapses_in=None if row.lease_until is None or not row.alive else row.lease_until - row.now,
                )
                for row in connection.execute(query)
            ]

    def share(self, replica: ReplicaId, *, locations: Collection[str], busy: Collection[str]) -> frozenset[str]:
        """Take the fair share of `locations` for a living replica, and return its whole share.

        The replica takes tables of dead replicas, and tables without an owner, up to a fair share. The fair share is
        the number of tables divided by the number of living replicas. It gives the rest back, except `busy` tables. A
        dead replica gets nothing and has nothing.
        """
        with self._write() as connection:
            _hold_membership(connection)
            connection.execute(
                sa.update(schema.replicas).where(_replicas.ended_at.is_(None), _LAPSED).values(ended_at=from_now())
            )
            living = frozenset(connection.scalars(sa.select(_replicas.id).where(_replicas.ended_at.is_(None))))
            if replica not in living:
                return frozenset()
            connection.execute(sa.delete(schema.shares).where(_shares.replica.not_in(living)))
            held = dict(connection.execute(sa.select(_shares.location, _shares.replica)).all())
            mine = shared_out(replica, living=living, held=held, locations=locations, busy=busy)
            before = {location for location, holder in held.items() if holder == replica}
            given_back, taken = sorted(before - mine), sorted(mine - before)
            for start in range(0, len(given_back), _AT_ONCE):
                some = given_back[start : start + _AT_ONCE]
                connection.execute(sa.delete(schema.shares).where(_shares.location.in_(some)))
            if taken:
                rows = [{"location": location, "replica": replica} for location in taken]
                connection.execute(sa.insert(schema.shares), rows)
            return mine

    def shares(self) -> Mapping[str, ReplicaId]:
        """Return the living replica that has the share of each table, by location."""
        query = sa.select(_shares.location, _shares.replica).join(schema.replicas, _replicas.id == _shares.replica)
        with self._read() as connection:
            return dict(connection.execute(query.where(ALIVE)).all())

    def mark_dirty(self, locations: Collection[str]) -> None:
        """Note for the owners of these tables that the tables have changed. It is a hint."""
        if not locations:
            return
        with self._write() as connection:
            marking = database.insert(connection, schema.dirty).on_conflict_do_nothing()
            connection.execute(marking, [{"location": location} for location in sorted(set(locations))])

    def take_dirty(self, replica: ReplicaId) -> frozenset[str]:
        """Return the tables of the replica that were marked dirty, and clear the marks."""
        mine = sa.select(_shares.location).where(_shares.replica == _replicas.id, _replicas.id == replica, ALIVE)
        taking = sa.delete(schema.dirty).where(_dirty.location.in_(mine)).returning(_dirty.location)
        with self._write_one() as connection:
            return frozenset(connection.scalars(taking))


def check_owns(connection: sa.Connection, replica: ReplicaId, location: str) -> None:
    """Lock the share of a table until the transaction ends, so no other replica can take it before.

    Raises SupersededError if the replica does not have the share, or its lease has ended.
    """
    share = sa.select(_shares.replica).where(_shares.location == location, _shares.replica == replica)
    if connection.execute(share.with_for_update()).first() is None:
        raise SupersededError(f"replica {replica} has not the share of {location}")
    if connection.execute(sa.select(_replicas.id).where(_replicas.id == replica, ALIVE)).first() is None:
        raise SupersededError(f"the lease of replica {replica} has ended")


def check_dead(connection: sa.Connection, replica: ReplicaId) -> None:
    """End a lease that has lapsed, for good. It waits for a renewal that has begun. A later renewal fails.

    Raises SupersededError if the lease has not lapsed.
    """
    ending = sa.update(schema.replicas).where(_replicas.id == replica, _replicas.ended_at.is_(None), _LAPSED)
    connection.execute(ending.values(ended_at=from_now()))
    if connection.execute(sa.select(_replicas.id).where(_replicas.id == replica, ALIVE)).first() is not None:
        raise SupersededError(f"the lease of replica {replica} still runs")


def _hold_membership(connection: sa.Connection) -> None:
    """Let no other replica join, leave or share before the transaction ends."""
    connection.execute(sa.select(schema.store.c.identity).with_for_update())
