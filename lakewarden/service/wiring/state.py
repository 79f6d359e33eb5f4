"""Composes the room `state`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lakewarden.planners.model.table import Table
from lakewarden.service.state.active_runs import ActiveRuns
from lakewarden.service.state.approvals import Approvals
from lakewarden.service.state.audit_log import AuditLog
from lakewarden.service.state.barriers import Barriers
from lakewarden.service.state.daemon_state import DaemonState
from lakewarden.service.state.lock_proofs import LockProofs
from lakewarden.service.state.moments import Moments
from lakewarden.service.state.observations import Observations
from lakewarden.service.state.readers.port import InlineReaders
from lakewarden.service.state.resources import Resources
from lakewarden.service.state.rewrites import Rewrites
from lakewarden.service.state.service_states import ServiceStates
from lakewarden.service.state.table_registry import TableRegistry
from lakewarden.service.state.trust.folders import TableFolders
from lakewarden.service.state.trust.foreign_services import ForeignServices
from lakewarden.service.state.trust.kept_by_others import KeptByOthers
from lakewarden.service.state.trust.writer_signs import WriterSigns


def state_of(tables: Sequence[Table], resources: Resources, *, wake: Callable[[], None]) -> DaemonState:
    """Return the state of a daemon at its start. `wake` ends the wait of the control thread."""
    store, clock = resources.store, resources.clock
    readers = resources.readers or InlineReaders(
        formats=resources.formats, storage_for=resources.storages.of, clock=clock
    )
    moments, active_runs = Moments(), ActiveRuns(store)
    registry = TableRegistry(tables)
    return DaemonState(
        tables=registry,
        moments=moments,
        observations=Observations(readers=readers, moments=moments, tell=wake),
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
