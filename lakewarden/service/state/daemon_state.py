"""The state that the daemon keeps from one turn to the next, as one group."""

from __future__ import annotations

import random
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakewarden.executors.contract import Pool
from lakewarden.executors.pool.listening import RunLogs
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.ports import TableFormat
from lakewarden.planners.registry import FORMATS
from lakewarden.planners.storage import Storages
from lakewarden.service.events import Listener
from lakewarden.service.state.active_runs import ActiveRuns
from lakewarden.service.state.approvals import Approvals, Rewrites
from lakewarden.service.state.audit_log import AuditLog
from lakewarden.service.state.barriers import Barriers
from lakewarden.service.state.lock_proofs import LockProofs
from lakewarden.service.state.observations import Observations
from lakewarden.service.state.readers.port import TableReaders
from lakewarden.service.state.readers.threads import PlacedThreads, Threads
from lakewarden.service.state.service_states import ServiceStates
from lakewarden.service.state.table_folders import ForeignServices, KeptByOthers, TableFolders, WriterSigns
from lakewarden.service.state.table_registry import TableRegistry

if TYPE_CHECKING:
    from lakewarden.service.store.sql.store import Store


@dataclass(frozen=True, kw_only=True, slots=True)
class DaemonState:
    """The registered tables, and what is known about them and their runs."""

    tables: TableRegistry
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


# The parts that a daemon is built on: those that exist before it, and those that it asks.


@dataclass(frozen=True, kw_only=True, slots=True)
class Resources:
    """`pools` are the session pools by the name of their `spark` profile. `readers` observe tables. Without readers the
    control thread observes them. `threads` list catalogs. `run_logs` are the logs of the runs that this daemon has
    carried out.
    """

    pools: MutableMapping[str, Pool]
    store: Store
    clock: Clock
    listener: Listener
    formats: Mapping[str, TableFormat] = field(default_factory=lambda: FORMATS)
    storages: Storages = field(default_factory=Storages)
    readers: TableReaders | None = None
    threads: Threads = field(default_factory=PlacedThreads)
    run_logs: RunLogs | None = None
    rng: random.Random = field(default_factory=random.Random)
