"""A daemon, composed of its rooms: the control thread, and the status for other threads."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from lakewarden.executors.contract import Pool
from lakewarden.planners.model.instant import RunId
from lakewarden.planners.model.table import Table, TableId
from lakewarden.service.control.command_queue import CommandQueue
from lakewarden.service.control.commands import Commands
from lakewarden.service.control.discovery import Discovery
from lakewarden.service.control.loop import ControlLoop
from lakewarden.service.control.membership import Membership
from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.model.replica import ReplicaId
from lakewarden.service.model.table_sources import Source
from lakewarden.service.ownership.executor_deaths import ExecutorDeaths
from lakewarden.service.ownership.ownership import Ownership
from lakewarden.service.ownership.recovery import DYING
from lakewarden.service.ownership.replica_lease import ReplicaLease
from lakewarden.service.ownership.table_shares import TableShares
from lakewarden.service.rules.permits import Limits
from lakewarden.service.rules.shutdown import Shutdown
from lakewarden.service.scheduling.permit_context import PermitContexts
from lakewarden.service.scheduling.permit_queue import PermitQueue
from lakewarden.service.scheduling.poller import Poller
from lakewarden.service.scheduling.precedence import Precedence
from lakewarden.service.scheduling.run_manager import RunManager
from lakewarden.service.scheduling.run_requests import Requests
from lakewarden.service.scheduling.scheduling import SchedulingParts
from lakewarden.service.scheduling.table_proofs import TableProofs
from lakewarden.service.state.active_runs import ActiveRuns
from lakewarden.service.state.approvals import Approvals, Rewrites
from lakewarden.service.state.audit_log import AuditLog
from lakewarden.service.state.barriers import Barriers
from lakewarden.service.state.daemon_state import DaemonState, Resources
from lakewarden.service.state.lock_proofs import LockProofs
from lakewarden.service.state.observations import Observations
from lakewarden.service.state.readers.port import InlineReaders
from lakewarden.service.state.service_states import ServiceStates
from lakewarden.service.state.table_folders import ForeignServices, KeptByOthers, TableFolders, WriterSigns
from lakewarden.service.state.table_registry import TableRegistry

Offer = Callable[[Sequence[Table], Sequence[Source] | None, Mapping[str, Pool]], None]
"""Hands other tables, other sources (None: the same) and new pools to the control thread."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ComposedDaemon:
    """A composed daemon: the object of the control thread, its lease, the status for other threads, and
    what takes another configuration.
    """

    daemon: ControlLoop
    replica_lease: ReplicaLease
    status: ControlPlane
    offer: Offer
    registered: Mapping[TableId, Table]


def compose(
    *,
    tables: Sequence[Table],
    resources: Resources,
    drain: timedelta,
    limits: Limits | None = None,
    lease: timedelta = timedelta(seconds=30),
    alone: bool = True,
    unproved: Callable[[], str | None] = lambda: None,
    url: str = "http://127.0.0.1:8080",
    sources: Sequence[Source] = (),
) -> ComposedDaemon:
    """Compose a daemon from its rooms. Nothing is started.

    `sources` are asked for tables that are not among `tables`. `alone`: the caller proves that there is no other daemon
    on the store. `unproved` returns why that proof fails now, or None. `url` is where other replicas reach the API.
    """
    queue, limits = CommandQueue(), limits or Limits()
    state = _state(tables, resources, wake=queue.wake)
    replica_lease = ReplicaLease(
        store=resources.store,
        pools=resources.pools.values(),
        clock=resources.clock,
        listener=resources.listener,
        lease=lease,
        alone=alone,
        url=url,
        unproved=unproved,
        new_id=lambda: ReplicaId(f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"),
    )
    ownership = Ownership(
        replica_lease=replica_lease,
        shares=TableShares(tables=state.tables, store=resources.store, replica_lease=replica_lease),
        deaths=ExecutorDeaths(clock=resources.clock, threads=resources.threads),
    )
    # Runs are adopted only after the end of a timed lease, and then no worker is alive.
    orphans_live = lease + DYING if alone else timedelta(0)
    scheduling = _scheduling(resources, state, ownership, queue, limits=limits, orphans_live=orphans_live)
    membership = Membership(
        state=state, ownership=ownership, scheduling=scheduling, clock=resources.clock, lease=lease, alone=alone
    )
    discovery = Discovery(
        listed=tables,
        sources=sources,
        resources=resources,
        state=state,
        membership=membership,
        wake=queue.wake,
        begin=partial(_begin, resources, queue),
    )
    commands = Commands(
        queue=queue,
        state=state,
        shares=ownership.shares,
        requests=scheduling.requests,
        runs=scheduling.runs,
        listener=resources.listener,
    )
    shutdown = Shutdown(clock=resources.clock, drain=drain)
    daemon = ControlLoop(
        resources=resources,
        state=state,
        ownership=ownership,
        scheduling=scheduling,
        membership=membership,
        discovery=discovery,
        commands=commands,
        queue=queue,
        shutdown=shutdown,
    )
    status = ControlPlane(
        resources=resources,
        state=state,
        ownership=ownership,
        scheduling=scheduling,
        daemon=daemon,
        membership=membership,
        commands=commands,
        queue=queue,
        shutdown=shutdown,
        discovery=discovery,
    )
    return ComposedDaemon(
        daemon=daemon, replica_lease=replica_lease, status=status, offer=discovery.offer, registered=state.tables
    )


def _begin(resources: Resources, queue: CommandQueue, pools: Mapping[str, Pool]) -> None:
    """Start the pools that come with another configuration."""
    resources.pools.update(pools)
    for pool in pools.values():
        pool.start(queue.put)


def _state(tables: Sequence[Table], resources: Resources, *, wake: Callable[[], None]) -> DaemonState:
    """Return the state of a daemon at its start. `wake` ends the wait of the control thread."""
    store, clock = resources.store, resources.clock
    readers = resources.readers or InlineReaders(
        formats=resources.formats, storage_for=resources.storages.of, clock=clock
    )
    active_runs, registry = ActiveRuns(store), TableRegistry(tables)
    return DaemonState(
        tables=registry,
        observations=Observations(readers=readers, tell=wake),
        service_states=ServiceStates(store=store, clock=clock, rng=resources.rng),
        approvals=Approvals(store=store, clock=clock),
        rewrites=Rewrites(store=store, clock=clock),
        active_runs=active_runs,
        proofs=LockProofs(store=store, active_runs=active_runs, clock=clock),
        audit_log=AuditLog(store=store, clock=clock),
        barriers=Barriers(active_runs=active_runs, clock=clock),
        writer_signs=WriterSigns(store=store, clock=clock),
        foreign_services=ForeignServices(store=store, clock=clock),
        kept_by_others=KeptByOthers(store=store),
        folders=TableFolders(store=store, tables=registry),
    )


def _scheduling(
    resources: Resources,
    state: DaemonState,
    ownership: Ownership,
    commands: CommandQueue,
    *,
    limits: Limits,
    orphans_live: timedelta,
) -> SchedulingParts:
    """Return the scheduling, without runs."""
    table_proofs = TableProofs(resources=resources, state=state)
    requests = Requests(
        resources=resources, state=state, new_id=lambda: RunId(uuid.uuid4().hex[:16]), table_proofs=table_proofs
    )
    precedence = Precedence(state=state, pools=resources.pools, clock=resources.clock)
    permit_contexts = PermitContexts(
        resources=resources,
        state=state,
        ownership=ownership,
        precedence=precedence,
        decisions=requests.decisions,
        limits=limits,
    )
    permit_queue = PermitQueue(resources=resources, state=state, permit_contexts=permit_contexts, limits=limits)
    runs = RunManager(
        resources=resources,
        state=state,
        ownership=ownership,
        permit_queue=permit_queue,
        precedence=precedence,
        settled=commands.mark_dirty,
        tell=commands.put,
        orphans_live=orphans_live,
    )
    return SchedulingParts(
        table_proofs=table_proofs,
        requests=requests,
        permit_contexts=permit_contexts,
        permit_queue=permit_queue,
        runs=runs,
        poller=Poller(resources=resources, state=state, replica_lease=ownership.replica_lease, requests=requests),
    )
