"""Shares: which tables this replica owns, and which replicas own the others.

No replica leads. Each replica asks the store for its fair share at intervals, and gives back the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from lakewarden.planners.model.table import Table, TableId
from lakewarden.service.model.replica import Replica, ReplicaId
from lakewarden.service.ownership.replica_lease import ReplicaLease
from lakewarden.service.state.table_registry import TableRegistry

if TYPE_CHECKING:
    from lakewarden.service.store.sql.store import Store


@dataclass(frozen=True, kw_only=True, slots=True)
class Moved:
    """The tables that a replica owns from now on, and those that it no longer owns."""

    gained: frozenset[TableId]
    lost: frozenset[TableId]


class TableShares:
    """The share of this replica. Only the control thread changes it, and any thread may ask.

    What it knows about other replicas is as old as the last `take`.
    """

    def __init__(self, *, tables: TableRegistry, store: Store, replica_lease: ReplicaLease) -> None:
        self._tables = tables
        self._store = store
        self._replica_lease = replica_lease
        self._owned: frozenset[TableId] = frozenset()
        self._holders: Mapping[str, ReplicaId] = {}
        self._replicas: Sequence[Replica] = ()
        self._by_id: Mapping[ReplicaId, Replica] = {}

    @property
    def owned(self) -> frozenset[TableId]:
        """The tables that this replica owns."""
        return self._owned

    def locations(self) -> frozenset[str]:
        """Return the locations of the tables that this replica owns."""
        return frozenset(self._tables[table].location for table in self._owned if table in self._tables)

    @property
    def replicas(self) -> Sequence[Replica]:
        """Every replica of the store, also the dead ones."""
        return self._replicas

    @property
    def first_lapse(self) -> timedelta | None:
        """After which time, from the last `take`, the first lease of another replica ends if it is not renewed."""
        others = (replica for replica in self._replicas if replica.id != self._replica_lease.replica)
        return min((replica.lapses_in for replica in others if replica.lapses_in is not None), default=None)

    def owns(self, table: TableId) -> bool:
        """Whether this replica owns a table, and may act on it now."""
        return table in self._owned and self._replica_lease.holds()

    def owner(self, table: TableId) -> Replica | None:
        """Return the owner of a table, as far as it is known here, or None."""
        registered = self._tables.get(table)
        return None if registered is None else self.owner_of(registered)

    def owner_of(self, table: Table) -> Replica | None:
        """Return the owner of a registered table, as far as it is known here, or None."""
        holder = self._holders.get(table.location)
        if holder == self._replica_lease.replica and not self.owns(table.id):
            return None  # our lease is lost
        return None if holder is None else self._by_id.get(holder)

    def owners(self) -> Callable[[Table], ReplicaId | None]:
        """Return what names the owner of a table, as `owner_of` does now. It asks once whether our lease holds."""
        ours, holds = self._replica_lease.replica, self._replica_lease.holds()
        owned, holders, by_id = self._owned, self._holders, self._by_id

        def named(table: Table) -> ReplicaId | None:
            holder = holders.get(table.location)
            if holder == ours and not (holds and table.id in owned):
                return None
            return holder if holder in by_id else None

        return named

    def count(self, replica: ReplicaId) -> int:
        """Return how many of the registered tables a replica owns, as far as it is known here."""
        by_location = self._tables.locations
        return sum(holder == replica for location, holder in self._holders.items() if location in by_location)

    def take(self, *, busy: Collection[TableId]) -> Moved:
        """Take the fair share. `busy` tables are kept in any case. If it raises TemporaryError, nothing has changed."""
        by_location = self._tables.locations
        locations = self._store.share(
            self._replica_lease.replica,
            locations=by_location.keys(),
            busy={self._tables[table].location for table in busy if table in self._tables},
        )
        holders, replicas = self._store.shares(), self._store.replicas()
        owned = frozenset(by_location[location] for location in locations if location in by_location)
        moved = Moved(gained=owned - self._owned, lost=self._owned - owned)
        self._holders, self._replicas, self._owned = holders, replicas, owned
        self._by_id = {replica.id: replica for replica in replicas}
        return moved

    def give_up(self) -> frozenset[TableId]:
        """Own no table any more, because the lease is lost. Return the tables that were owned."""
        lost, self._owned = self._owned, frozenset()
        return lost

    def notify_owners(self, tables: Collection[TableId]) -> None:
        """Tell the owners of these tables that the tables have changed. Raises TemporaryError."""
        if tables:
            self._store.mark_dirty({self._tables[table].location for table in tables if table in self._tables})

    def take_notices(self) -> frozenset[TableId]:
        """Return the tables that have changed, as other replicas say. Raises TemporaryError."""
        locations = self._store.take_dirty(self._replica_lease.replica)
        by_location = self._tables.locations
        return frozenset(by_location[location] for location in locations if location in by_location)
