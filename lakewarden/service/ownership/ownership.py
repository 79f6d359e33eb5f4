"""The parts that say who may act on a table, as one group."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.service.ownership.executor_deaths import ExecutorDeaths
from lakewarden.service.ownership.replica_lease import ReplicaLease
from lakewarden.service.ownership.table_shares import TableShares


@dataclass(frozen=True, kw_only=True, slots=True)
class Ownership:
    """The lease of this replica, its share of the tables, and the proofs of deaths."""

    replica_lease: ReplicaLease
    shares: TableShares
    deaths: ExecutorDeaths
