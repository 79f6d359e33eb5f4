"""Composes the room `scheduling`."""

from __future__ import annotations

import uuid
from datetime import timedelta

from lakewarden.planners.model.instant import RunId
from lakewarden.service.control.command_queue import CommandQueue
from lakewarden.service.ownership.ownership import Ownership
from lakewarden.service.ownership.recovery import DYING
from lakewarden.service.rules.permits import Limits
from lakewarden.service.scheduling.permit_context import PermitContexts
from lakewarden.service.scheduling.permit_queue import PermitQueue
from lakewarden.service.scheduling.poller import Poller
from lakewarden.service.scheduling.precedence import Precedence
from lakewarden.service.scheduling.requests import Requests
from lakewarden.service.scheduling.run_manager import RunManager
from lakewarden.service.scheduling.scheduling import SchedulingParts
from lakewarden.service.scheduling.table_proofs import TableProofs
from lakewarden.service.state.daemon_state import DaemonState
from lakewarden.service.state.resources import Resources
from lakewarden.service.wiring.ownership import LeaseTerms


def scheduling_of(
    resources: Resources,
    state: DaemonState,
    ownership: Ownership,
    commands: CommandQueue,
    *,
    limits: Limits,
    terms: LeaseTerms,
) -> SchedulingParts:
    """Return the scheduling, without runs."""
    table_proofs = TableProofs(resources=resources, state=state, ownership=ownership)
    requests = Requests(
        resources=resources,
        state=state,
        ownership=ownership,
        new_id=lambda: RunId(uuid.uuid4().hex[:16]),
        table_proofs=table_proofs,
    )
    precedence = Precedence(
        tables=state.tables,
        pools=resources.pools,
        service_states=state.service_states,
        active_runs=state.active_runs,
        observations=state.observations,
        clock=resources.clock,
    )
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
        # Runs are adopted only after the end of a timed lease, and then no worker is alive.
        orphans_live=terms.lease + DYING if terms.alone else timedelta(0),
    )
    return SchedulingParts(
        table_proofs=table_proofs,
        requests=requests,
        permit_contexts=permit_contexts,
        permit_queue=permit_queue,
        runs=runs,
        poller=Poller(resources=resources, state=state, replica_lease=ownership.replica_lease, requests=requests),
    )
