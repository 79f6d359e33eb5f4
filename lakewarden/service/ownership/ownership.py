"""The parts that say who may act on a table, as one group."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.service.ownership.claims import Claims
from lakewarden.service.ownership.dead_executors import DeadExecutors
from lakewarden.service.ownership.executor_deaths import ExecutorDeaths
from lakewarden.service.ownership.replica_lease import ReplicaLease
from lakewarden.service.ownership.table_shares import TableShares


@dataclass(frozen=True, kw_only=True, slots=True)
class Ownership:
    """The lease of this replica, its share of the tables, its claims, the proofs of deaths, and the dead executors."""

    replica_lease: ReplicaLease
    shares: TableShares
    claims: Claims
    deaths: ExecutorDeaths
    dead_executors: DeadExecutors
