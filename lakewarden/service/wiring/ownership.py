"""Composes the room `ownership`."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from lakewarden.planners.model.table import Table
from lakewarden.service.control.command_queue import CommandQueue
from lakewarden.service.model.replica import ReplicaId
from lakewarden.service.ownership.claim_file import Cadence
from lakewarden.service.ownership.claims import Claims
from lakewarden.service.ownership.dead_executors import DeadExecutors
from lakewarden.service.ownership.executor_deaths import ExecutorDeaths
from lakewarden.service.ownership.ownership import Ownership
from lakewarden.service.ownership.replica_lease import ReplicaLease
from lakewarden.service.ownership.table_shares import TableShares
from lakewarden.service.state.daemon_state import DaemonState
from lakewarden.service.state.resources import Resources


@dataclass(frozen=True, kw_only=True, slots=True)
class LeaseTerms:
    """The terms of the right to act. `alone`: the caller proves that there is no other daemon on the store.

    `unproved` returns why that proof fails now, or None. `url` is where other replicas reach the API.
    """

    lease: timedelta
    alone: bool
    unproved: Callable[[], str | None]
    url: str
    cadence: Cadence | None


def ownership_of(
    tables: Sequence[Table], resources: Resources, state: DaemonState, commands: CommandQueue, terms: LeaseTerms
) -> Ownership:
    """Return the ownership of a replica that has no lease yet."""
    store = resources.store
    replica_lease = ReplicaLease(
        store=store,
        pools=resources.pools.values(),
        clock=resources.clock,
        listener=resources.listener,
        lease=terms.lease,
        alone=terms.alone,
        url=terms.url,
        unproved=terms.unproved,
        new_id=lambda: ReplicaId(f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"),
    )
    claims = Claims(
        tables=tables,
        resources=resources,
        active_runs=state.active_runs,
        moments=state.moments,
        changed=commands.mark_dirty,
        tell=commands.wake,
        cadence=terms.cadence,
    )
    deaths = ExecutorDeaths(clock=resources.clock, threads=resources.threads)
    return Ownership(
        replica_lease=replica_lease,
        shares=TableShares(tables=state.tables, store=store, replica_lease=replica_lease),
        claims=claims,
        deaths=deaths,
        dead_executors=DeadExecutors(store=store, claims=claims, deaths=deaths),
    )
