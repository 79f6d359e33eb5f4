"""Shares: which tables this replica attends, and who attends the others.

Nobody leads. Each replica asks the store for its fair share now and then, and gives back what is above it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from lakewarden.planners.model.table import TableId
from lakewarden.service.model.replica import Replica, ReplicaId
from lakewarden.service.ownership.replica_lease import ReplicaLease
from lakewarden.service.state.table_registry import TableRegistry
from lakewarden.service.store.port import Store


@dataclass(frozen=True, kw_only=True, slots=True)
class Moved:
    """The tables that a replica attends from now on, and those that it attends no longer."""

    gained: frozenset[TableId]
    lost: frozenset[TableId]


class TableShares:
    """Only the control thread changes it; anybody may ask. What it knows of others is as old as the last `take`."""

    def __init__(self, *, tables: TableRegistry, store: Store, tenure: ReplicaLease) -> None:
        self._tables = tables
        self._store = store
        self._tenure = tenure
        self._attended: frozenset[TableId] = frozenset()
        self._holders: Mapping[str, ReplicaId] = {}
        self._replicas: Sequence[Replica] = ()

    @property
    def attended(self) -> frozenset[TableId]:
        """The tables that this replica attends."""
        return self._attended

    def locations(self) -> frozenset[str]:
        """Return where the tables are that this replica attends."""
        return frozenset(self._tables[table].location for table in self._attended if table in self._tables)

    @property
    def replicas(self) -> Sequence[Replica]:
        """Every replica, the living and the dead."""
        return self._replicas

    def attends(self, table: TableId) -> bool:
        """Whether this replica attends a table, and may act on it now."""
        return table in self._attended and self._tenure.holds()

    def attendant(self, table: TableId) -> Replica | None:
        """Return who attends a table, as far as it is known here; None where nobody is."""
        registered = self._tables.get(table)
        holder = None if registered is None else self._holders.get(registered.location)
        if holder == self._tenure.replica and not self.attends(table):
            return None  # our lease is lost
        return next((replica for replica in self._replicas if replica.id == holder), None)

    def count(self, replica: ReplicaId) -> int:
        """Return how many of the registered tables a replica attends, as far as it is known here."""
        known = self._tables.locations
        return sum(holder == replica for location, holder in self._holders.items() if location in known)

    def take(self, *, busy: Collection[TableId]) -> Moved:
        """Take the fair share, keeping `busy` tables in any case. Raises TemporaryError, and nothing has changed."""
        known = self._tables.locations
        locations = self._store.share(
            self._tenure.replica,
            locations=known.keys(),
            busy={self._tables[table].location for table in busy if table in self._tables},
        )
        holders, replicas = self._store.shares(), self._store.replicas()
        attended = frozenset(known[location] for location in locations if location in known)
        moved = Moved(gained=attended - self._attended, lost=self._attended - attended)
        self._holders, self._replicas, self._attended = holders, replicas, attended
        return moved

    def give_up(self) -> frozenset[TableId]:
        """Attend nothing any more: the tenure is lost. Returns what was attended."""
        lost, self._attended = self._attended, frozenset()
        return lost

    def leave_word(self, tables: Collection[TableId]) -> None:
        """Tell whoever attends these tables that they have changed. Raises TemporaryError."""
        if tables:
            self._store.mark_dirty({self._tables[table].location for table in tables if table in self._tables})

    def take_words(self) -> frozenset[TableId]:
        """Return the tables of which others say that they have changed. Raises TemporaryError."""
        locations = self._store.take_dirty(self._tenure.replica)
        known = self._tables.locations
        return frozenset(known[location] for location in locations if location in known)
