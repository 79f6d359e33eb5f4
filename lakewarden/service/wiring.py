"""The composition root: the one place that names concrete stores and pools, and the order of life and death."""

from __future__ import annotations

import gc
import os
import random
import socket
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import structlog

from lakewarden.executors.contract import Pool
from lakewarden.executors.pool.session_pool import WorkerPool
from lakewarden.executors.profile import SparkProfile
from lakewarden.executors.worker import bundles
from lakewarden.planners.model.clock import CautiousClock, Clock, SystemClock
from lakewarden.planners.model.instant import RunId
from lakewarden.planners.model.table import Mode, Table, TableId
from lakewarden.planners.ports import TableFormat
from lakewarden.planners.registry import FORMATS
from lakewarden.planners.storage import Storages
from lakewarden.planners.storage.locations import is_in_catalog
from lakewarden.planners.storage.settings import StoreSettings, setting_of
from lakewarden.service.config.loading import examine
from lakewarden.service.config.problems import Weight
from lakewarden.service.config.settings import PermitSettings
from lakewarden.service.control.command_handler import CommandHandler
from lakewarden.service.control.commands import CommandQueue
from lakewarden.service.control.discovery import Discovery
from lakewarden.service.control.housekeeping import housekeeping
from lakewarden.service.control.loop import ControlLoop
from lakewarden.service.control.membership import Membership
from lakewarden.service.control.sources import sources_of
from lakewarden.service.control.status import Status
from lakewarden.service.events.listener import Listener, Listeners
from lakewarden.service.http.ports import bind_ports
from lakewarden.service.model.found import Source
from lakewarden.service.model.replica import ReplicaId
from lakewarden.service.ownership.claim_file import Cadence
from lakewarden.service.ownership.claims import Claims
from lakewarden.service.ownership.dead_executors import DeadExecutors
from lakewarden.service.ownership.recovery import DYING
from lakewarden.service.ownership.replica_lease import ReplicaLease
from lakewarden.service.ownership.run_leases import DataFolder, RunLeases
from lakewarden.service.ownership.table_shares import TableShares
from lakewarden.service.process.last_resort import GRACE, stand_by
from lakewarden.service.process.logs import set_up_logs
from lakewarden.service.process.signals import stop_on_signals
from lakewarden.service.reporting.event_log import EventLog
from lakewarden.service.reporting.metrics import Metrics
from lakewarden.service.rules.permits import Limits
from lakewarden.service.rules.shutdown import STEP_BACK, Shutdown
from lakewarden.service.scheduling.permit_context import PermitContexts
from lakewarden.service.scheduling.permit_queue import PermitQueue
from lakewarden.service.scheduling.poller import Poller
from lakewarden.service.scheduling.precedence import Precedence
from lakewarden.service.scheduling.requests import Requests
from lakewarden.service.scheduling.run_manager import RunManager
from lakewarden.service.state.active_runs import ActiveRuns
from lakewarden.service.state.approvals import Approvals
from lakewarden.service.state.backoff import Backoffs
from lakewarden.service.state.barriers import Barriers
from lakewarden.service.state.lock_proofs import LockProofs
from lakewarden.service.state.moments import Moments
from lakewarden.service.state.observations import Observations
from lakewarden.service.state.readers.inline import InlineReaders
from lakewarden.service.state.readers.port import TableReaders
from lakewarden.service.state.readers.processes import ProcessReaders
from lakewarden.service.state.readers.threads import PlacedThreads, Threads
from lakewarden.service.state.table_registry import TableRegistry
from lakewarden.service.store.opening import open_store
from lakewarden.service.store.port import Store

log = structlog.get_logger(__name__)

RUNS_ON_S3 = 50
"""A worker with a table on S3 is replaced after so many runs: Hudi leaves connections open there, which only the end
of the JVM closes (docs/object_stores.md)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ControlRoom:
    """A composed daemon: the control thread's object, its right to act, and the daemon as others see it."""

    daemon: ControlLoop
    tenure: ReplicaLease
    claims: Claims
    status: Status
    registered: Mapping[TableId, Table]


def compose(
    *,
    tables: Sequence[Table],
    pools: Mapping[str, Pool],
    store: Store,
    clock: Clock,
    listener: Listener,
    drain: timedelta,
    formats: Mapping[str, TableFormat] = FORMATS,
    storages: Storages | None = None,
    limits: Limits | None = None,
    dice: random.Random | None = None,
    readers: TableReaders | None = None,
    threads: Threads | None = None,
    cadence: Cadence | None = None,
    lease: timedelta = timedelta(seconds=30),
    alone: bool = True,
    unproved: Callable[[], str | None] = lambda: None,
    url: str = "http://127.0.0.1:8080",
    sources: Sequence[Source] = (),
) -> ControlRoom:
    """Put a daemon together from its parts, starting nothing.

    `pools` are the session pools by the name of their `spark` profile; `url` is where other replicas reach the API.
    `alone`: the caller proves that there is no other daemon on the store, until `unproved` says why not. `readers` look
    at tables (without any, the control thread does); `threads` look after claims, and ask `sources` for tables that are
    not among `tables`.
    """
    registered = TableRegistry(tables)
    dice = dice or random.Random()  # noqa: S311 - jitter, not secrets
    inbox = CommandQueue()
    storages = storages or Storages()
    threads = threads or PlacedThreads()
    moments = Moments()
    watch = Observations(
        readers=readers or InlineReaders(formats=formats, storage_for=storages.of, clock=clock),
        moments=moments,
        tell=inbox.wake,
    )
    limits = limits or Limits()
    standings = Backoffs(store=store, clock=clock, dice=dice)
    approvals = Approvals(store=store, clock=clock)
    tenure = ReplicaLease(
        store=store,
        pools=pools.values(),
        clock=clock,
        listener=listener,
        lease=lease,
        alone=alone,
        url=url,
        unproved=unproved,
        new_id=lambda: ReplicaId(f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"),
    )
    shares = TableShares(tables=registered, store=store, tenure=tenure)
    book = ActiveRuns(store)
    claims = Claims(
        tables=tables,
        formats=formats,
        conditions=storages.conditions,
        holder=store.identity(),
        book=book,
        pools=pools,
        changed=inbox.mark_dirty,
        listener=listener,
        clock=clock,
        threads=threads,
        moments=moments,
        tell=inbox.wake,
        cadence=cadence,
    )
    proofs = LockProofs(store=store, book=book, clock=clock)
    freed = DeadExecutors(store=store, claims=claims)
    barriers = Barriers(book=book, clock=clock)
    requests = Requests(
        store=store,
        standings=standings,
        approvals=approvals,
        claims=claims,
        proofs=proofs,
        freed=freed,
        clock=clock,
        listener=listener,
        new_id=lambda: RunId(uuid.uuid4().hex[:16]),
    )
    precedence = Precedence(tables=registered, pools=pools, standings=standings, book=book, clock=clock)
    surroundings = PermitContexts(
        tables=registered,
        formats=formats,
        watch=watch,
        store=store,
        book=book,
        leases=RunLeases(store, tenure),
        claims=claims,
        proofs=proofs,
        freed=freed,
        standings=standings,
        precedence=precedence,
        approvals=approvals,
        barriers=barriers,
        decisions=requests.decisions,
        clock=clock,
        limits=limits,
    )
    questions = PermitQueue(
        tables=registered,
        pools=pools,
        book=book,
        surroundings=surroundings,
        approvals=approvals,
        clock=clock,
        listener=listener,
        limits=limits,
        moments=moments,
    )
    runs = RunManager(
        tables=registered,
        pools=pools,
        watch=watch,
        store=store,
        book=book,
        questions=questions,
        barriers=barriers,
        standings=standings,
        precedence=precedence,
        freed=freed,
        clock=clock,
        listener=listener,
        tenure=tenure,
        settled=inbox.mark_dirty,
        tell=inbox.put,
        # The end of a timed lease, without which nothing is adopted, leaves no worker alive.
        orphans_live=lease + DYING if alone else timedelta(0),
    )
    attention = Poller(
        tables=registered,
        watch=watch,
        requests=requests,
        proofs=proofs,
        book=book,
        store=store,
        tenure=tenure,
        clock=clock,
        listener=listener,
        dice=dice,
    )
    membership = Membership(
        tenure=tenure,
        shares=shares,
        attention=attention,
        standings=standings,
        approvals=approvals,
        proofs=proofs,
        barriers=barriers,
        book=book,
        claims=claims,
        runs=runs,
        clock=clock,
        lease=lease,
        alone=alone,
    )
    desk = CommandHandler(
        tables=registered,
        shares=shares,
        watch=watch,
        requests=requests,
        book=book,
        standings=standings,
        approvals=approvals,
        proofs=proofs,
        barriers=barriers,
        listener=listener,
    )
    discovery = Discovery(
        listed=tables,
        sources=sources,
        register=registered,
        membership=membership,
        claims=claims,
        book=book,
        threads=threads,
        listener=listener,
        wake=inbox.wake,
    )
    shutdown = Shutdown(clock=clock, drain=drain)
    daemon = ControlLoop(
        tables=registered,
        tenure=tenure,
        membership=membership,
        discovery=discovery,
        shares=shares,
        attention=attention,
        book=book,
        questions=questions,
        runs=runs,
        surroundings=surroundings,
        barriers=barriers,
        desk=desk,
        pools=pools,
        claims=claims,
        inbox=inbox,
        clock=clock,
        shutdown=shutdown,
    )
    status = Status(
        tables=registered,
        daemon=daemon,
        tenure=tenure,
        membership=membership,
        shares=shares,
        shutdown=shutdown,
        attention=attention,
        watch=watch,
        requests=requests,
        book=book,
        questions=questions,
        standings=standings,
        approvals=approvals,
        claims=claims,
        proofs=proofs,
        store=store,
        pools=pools,
        inbox=inbox,
        clock=clock,
    )
    return ControlRoom(daemon=daemon, tenure=tenure, claims=claims, status=status, registered=registered)


def serve(config_file: Path) -> int:
    """Run the daemon until a signal ends it, drained and tidied up. Raises PermanentError for a wrong start."""
    examined = examine(config_file, to_serve=True)
    config = examined.accepted()
    set_up_logs()
    for warning in examined.of(Weight.WARNING):
        log.warning("configuration", problem=warning)
    settings = config.settings
    stand_by(settings.daemon.drain + STEP_BACK + GRACE)
    with ExitStack() as life:
        folder = DataFolder(config.data_dir)
        life.callback(folder.release)
        store = open_store(settings.database, data_dir=folder.path)
        life.callback(store.close)
        clock = CautiousClock(SystemClock())
        known = (*config.tables, *(discover.any_table for discover in config.discover))
        metrics = Metrics({service for table in known for service in table.policies})
        storages = Storages(settings.storage)
        readers = ProcessReaders(
            settings=settings.reading, stores=settings.storage, clock=clock, ended=metrics.reader_ended
        )
        life.callback(readers.close)
        room = compose(
            tables=config.tables,
            readers=readers,
            pools=_pools(settings.spark, known, settings.storage, folder.path),
            storages=storages,
            sources=sources_of(config.discover, storages),
            store=store,
            clock=clock,
            listener=Listeners([metrics, EventLog()]),
            drain=settings.daemon.drain,
            limits=_limits(settings.permits),
            lease=settings.daemon.lease,
            alone=not settings.database.shared,  # then the data folder's lock proves it
            unproved=(lambda: None) if settings.database.shared else folder.lost,
            url=settings.api.url,
        )
        metrics.watch(room.status)
        servers = bind_ports(
            settings,
            room.status,
            clock=clock,
            registry=metrics.registry,
            hook_heard=metrics.hook,
            refused=metrics.refused,
        )
        life.enter_context(housekeeping(store, clock, registered=room.registered, keep=settings.daemon.keep_runs))
        stop_on_signals(room.daemon.stop)
        room.daemon.start()
        gc.collect()
        gc.freeze()  # what is there stays: to look through it for garbage would hold up hooks for a tenth of a second
        for server in servers:
            life.enter_context(server)
        log.info("serving", tables=len(config.tables), **{server.name: server.port for server in servers})
        room.daemon.run()
    log.info("stopped")
    return 0


def _pools(
    profiles: Mapping[str, SparkProfile], tables: Sequence[Table], stores: Sequence[StoreSettings], folder: Path
) -> Mapping[str, Pool]:
    """Return a pool for each profile through which a table is acted on; the others would only hold memory."""
    served = [table for table in tables if table.mode is Mode.ACT and table.policies]
    pools = {}
    for name in sorted({name for table in served for name in table.profiles()}):
        found = [store for table in served if name in table.profiles() for store in _stores_of(table, stores)]
        storage = [store for number, store in enumerate(found) if store not in found[:number]]
        schemes = {store.scheme for store in storage}
        bundles.fetch(profiles[name].formats, say=lambda what: log.info("bundle", what=what), stores=schemes)
        profile = profiles[name]
        if "s3" in schemes:
            profile = profile.model_copy(update={"recycle_after": min(profile.recycle_after, RUNS_ON_S3)})
        pools[name] = WorkerPool(profile, directory=folder / "workers" / name, storage=storage)
    return pools


def _stores_of(table: Table, stores: Sequence[StoreSettings]) -> Sequence[StoreSettings]:
    """Return the settings of the stores in which a table's files may lie: a catalog may name any that is set up."""
    if is_in_catalog(table.location):
        return stores
    store = setting_of(table.location, stores)
    return [] if store is None else [store]


def _limits(permits: PermitSettings) -> Limits:
    return Limits(
        writer_patience=permits.writer_patience,
        commit_patience=permits.commit_patience,
        joined_step=permits.joined_step,
        step=permits.step,
        longest_step=permits.longest_step,
        slowest=permits.slowest,
    )
