"""The state that the daemon keeps from one turn to the next, as one group."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.service.state.active_runs import ActiveRuns
from lakewarden.service.state.approvals import Approvals
from lakewarden.service.state.audit_log import AuditLog
from lakewarden.service.state.barriers import Barriers
from lakewarden.service.state.lock_proofs import LockProofs
from lakewarden.service.state.moments import Moments
from lakewarden.service.state.observations import Observations
from lakewarden.service.state.rewrites import Rewrites
from lakewarden.service.state.service_states import ServiceStates
from lakewarden.service.state.table_registry import TableRegistry
from lakewarden.service.state.trust.folders import TableFolders
from lakewarden.service.state.trust.foreign_services import ForeignServices
from lakewarden.service.state.trust.kept_by_others import KeptByOthers
from lakewarden.service.state.trust.writer_signs import WriterSigns


@dataclass(frozen=True, kw_only=True, slots=True)
class DaemonState:
    """The registered tables, and what is known about them and their runs."""

    tables: TableRegistry
    moments: Moments
    observations: Observations
    service_states: ServiceStates
    approvals: Approvals
    rewrites: Rewrites
    active_runs: ActiveRuns
    proofs: LockProofs
    barriers: Barriers
    writer_signs: WriterSigns
    foreign_services: ForeignServices
    kept_by_others: KeptByOthers
    folders: TableFolders
    audit_log: AuditLog
