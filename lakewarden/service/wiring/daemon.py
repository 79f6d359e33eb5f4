"""A daemon, composed of its rooms: the control thread, and the status for other threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from lakewarden.executors.contract import Pool
from lakewarden.planners.model.table import Table, TableId
from lakewarden.service.control.command_queue import CommandQueue
from lakewarden.service.control.commands import Commands
from lakewarden.service.control.discovery import Discovery
from lakewarden.service.control.loop import ControlLoop
from lakewarden.service.control.membership import Membership
from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.model.found import Source
from lakewarden.service.ownership.ownership import Ownership
from lakewarden.service.ownership.replica_lease import ReplicaLease
from lakewarden.service.rules.permits import Limits
from lakewarden.service.rules.shutdown import Shutdown
from lakewarden.service.scheduling.scheduling import SchedulingParts
from lakewarden.service.state.daemon_state import DaemonState
from lakewarden.service.state.resources import Resources
from lakewarden.service.wiring.ownership import LeaseTerms, ownership_of
from lakewarden.service.wiring.scheduling import scheduling_of
from lakewarden.service.wiring.state import state_of

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

    `sources` are asked for tables that are not among `tables`. `LeaseTerms` explains the others.
    """
    queue = CommandQueue()
    terms = LeaseTerms(lease=lease, alone=alone, unproved=unproved, url=url)
    state = state_of(tables, resources, wake=queue.wake)
    ownership = ownership_of(resources, state, terms)
    scheduling = scheduling_of(resources, state, ownership, queue, limits=limits or Limits(), terms=terms)
    membership = Membership(
        state=state,
        ownership=ownership,
        scheduling=scheduling,
        clock=resources.clock,
        lease=lease,
        alone=alone,
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
    return _controlled(
        resources,
        state,
        ownership,
        scheduling,
        queue=queue,
        membership=membership,
        discovery=discovery,
        shutdown=Shutdown(clock=resources.clock, drain=drain),
    )


def _begin(resources: Resources, queue: CommandQueue, pools: Mapping[str, Pool]) -> None:
    """Start the pools that come with another configuration."""
    resources.pools.update(pools)
    for pool in pools.values():
        pool.start(queue.put)


def _controlled(
    resources: Resources,
    state: DaemonState,
    ownership: Ownership,
    scheduling: SchedulingParts,
    *,
    queue: CommandQueue,
    membership: Membership,
    discovery: Discovery,
    shutdown: Shutdown,
) -> ComposedDaemon:
    """Return the rooms under one control thread, and the status for other threads."""
    commands = Commands(
        queue=queue,
        state=state,
        shares=ownership.shares,
        requests=scheduling.requests,
        runs=scheduling.runs,
        listener=resources.listener,
    )
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
        daemon=daemon,
        replica_lease=ownership.replica_lease,
        status=status,
        offer=discovery.offer,
        registered=state.tables,
    )
