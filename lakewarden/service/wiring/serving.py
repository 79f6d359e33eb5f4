"""`lakewarden serve`: it composes the daemon of a configuration, and orders the start and the end of its parts."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from lakewarden.executors.edge import edge
from lakewarden.executors.pool.listening import RunLogs
from lakewarden.executors.pool.process import COMMAND as WORKER
from lakewarden.planners.model.clock import CautiousClock, Clock, SystemClock
from lakewarden.planners.model.errors import PermanentError, installing
from lakewarden.planners.model.table import Table
from lakewarden.planners.ports import TableFormat
from lakewarden.planners.registry import FORMATS
from lakewarden.planners.storage import Storages
from lakewarden.service.config.access import AccessSettings, Authentication
from lakewarden.service.config.daemon import PermitSettings, TraceSettings, at_start
from lakewarden.service.config.loading import Config, examine
from lakewarden.service.config.problems import Weight
from lakewarden.service.config.registering import Base, base_of
from lakewarden.service.config.settings import Configuration
from lakewarden.service.control.discovery import sources_of
from lakewarden.service.control.housekeeping import Keeping, housekeeping, watching
from lakewarden.service.events import Listeners
from lakewarden.service.http.access.callers import Identify
from lakewarden.service.http.pages.sign_in import RETURN_PATH
from lakewarden.service.http.ports import bind_ports
from lakewarden.service.http.redacted import ConfigurationPart, Redacted
from lakewarden.service.model.received_hook import HeardHook, OnHook
from lakewarden.service.model.registrations import ReloadOutcome
from lakewarden.service.ownership.data_folder import DataFolder
from lakewarden.service.process.last_resort import GRACE, stand_by
from lakewarden.service.process.logs import set_up_logs
from lakewarden.service.process.signals import favour_hooks, hang_up_reloads, stop_on_signals
from lakewarden.service.reporting.event_log import MOST_A_MINUTE, EventLog
from lakewarden.service.reporting.metrics import Metrics
from lakewarden.service.rules.permits import Limits
from lakewarden.service.rules.shutdown import STEP_BACK
from lakewarden.service.state.api_keys import ApiKeys
from lakewarden.service.state.daemon_state import Resources
from lakewarden.service.state.readers.child import COMMAND as READER
from lakewarden.service.state.readers.processes import ProcessReaders
from lakewarden.service.state.readers.threads import PlacedThreads
from lakewarden.service.store.opening import file_of, open_patiently
from lakewarden.service.store.sql.store import Store
from lakewarden.service.wiring.daemon import ComposedDaemon, compose
from lakewarden.service.wiring.in_force import PoolsOf, Tables, TablesInForce, with_rows
from lakewarden.service.wiring.pools import WorkerReach, pools_of, served_by
from lakewarden.service.wiring.registering import Registrar, Reloader, catching_up

if TYPE_CHECKING:
    from lakewarden.service.reporting.tracing import RunTraces
    from lakewarden.service.state.identity import BearerTokens
    from lakewarden.service.state.sign_in import SignIns


# Composes the access to the ports: the keys that count, as the configuration says.

_THREADS = 16
_THREADS_OF_AN_ISSUER = 4
"""An issuer that does not answer occupies no more threads than this."""

log = structlog.get_logger(__name__)


def identify_by(settings: AccessSettings, store: Store, clock: Clock, *, life: ExitStack) -> Identify | None:
    """Return what knows the callers of requests, until `life` ends. None if no request needs a key."""
    if settings.authentication is Authentication.NONE:
        return None
    keys = ApiKeys(store=store, clock=clock, configured=settings.keys)
    life.enter_context(keys.kept_fresh())
    tokens = _tokens_of(settings, clock)
    if not keys.count() and tokens is None:
        log.warning("no_api_key", remedy="make one with 'lakewarden keys create NAME --role operator'")
    if tokens is None:
        return keys.caller
    return lambda key: keys.caller(key) or tokens.caller(key)


def _tokens_of(settings: AccessSettings, clock: Clock) -> BearerTokens | None:
    if not settings.issuers:
        return None
    from lakewarden.service.state.identity import BearerTokens  # noqa: PLC0415 - 9 MiB of cryptography

    threads = PlacedThreads(most=_THREADS, of_a_place=_THREADS_OF_AN_ISSUER)
    return BearerTokens(settings.issuers, clock=clock, threads=threads)


def sign_ins_of(settings: Configuration) -> SignIns | None:
    """Return the issuers with which people may sign in on the page. None if there are none."""
    if settings.access.authentication is Authentication.NONE:
        return None
    if all(issuer.client_id is None for issuer in settings.access.issuers):
        return None
    from lakewarden.service.state.sign_in import SignIns  # noqa: PLC0415 - cryptography, and a client of HTTP

    return SignIns(settings.access.issuers, back=settings.api.url.rstrip("/") + RETURN_PATH)


# Traces: nothing of OpenTelemetry is imported without them.


def traces_to(settings: TraceSettings, clock: Clock, life: ExitStack) -> RunTraces | None:
    """Return what tells the collector of the runs, until `life` ends. None without a collector.

    Raises PermanentError if the extra is not installed.
    """
    if settings.endpoint is None:
        return None
    try:
        from lakewarden.service.reporting.tracing import Collector, RunTraces  # noqa: PLC0415 - an extra
    except ImportError as missing:
        raise PermanentError(
            f"traces.endpoint needs the extra otel, and {missing.name} is not installed: "
            f"{installing('otel')}, or remove traces.endpoint"
        ) from missing
    collector = Collector(settings.endpoint)
    life.callback(collector.close)
    return RunTraces(clock, collector.tell)


def heard_by(metrics: Metrics, traces: RunTraces | None) -> OnHook:
    """Return what counts each hook, and tells the traces of it."""
    if traces is None:
        return metrics.hook

    def heard(hook: HeardHook) -> None:
        metrics.hook(hook)
        traces.hook(hook)

    return heard


# Looks at the configuration file from time to time, and has it read again after it has changed.
#
# A ConfigMap that is mounted in a pod changes without a signal.


@dataclass(frozen=True, kw_only=True, slots=True)
class SeenFile:
    """A file as it was seen: `content` tells one content from another one, and is None if it could not be read."""

    file: Path
    content: str | None

    @classmethod
    def of(cls, file: Path) -> SeenFile:
        """Return a file as it is now."""
        try:
            with file.open("rb") as content:
                return cls(file=file, content=hashlib.file_digest(content, "sha256").hexdigest())
        except OSError:
            return cls(file=file, content=None)


class ConfigurationWatch:
    """Has a file read again once its new content has been the same at two looks. A file that is being written is not
    read, and a content that was refused is not read again.
    """

    def __init__(self, seen: SeenFile, *, reload: Callable[[], object]) -> None:
        """`seen` is the file as it was before the daemon read it."""
        self._reload = reload
        self._read = self._seen = seen

    def look(self) -> None:
        """Look at the file once. A file that is gone, or cannot be read, changes nothing."""
        before, self._seen = self._seen, SeenFile.of(self._seen.file)
        if self._seen.content is None or self._seen == self._read or self._seen != before:
            return
        self._read = self._seen
        log.info("configuration_changed", file=str(self._seen.file))
        self._reload()


@contextmanager
def watched(seen: SeenFile, reload: Callable[[], object], *, every: timedelta) -> Iterator[None]:
    """Look at the file every so often, inside the `with` block. Never, if `every` is zero."""
    if not every:
        yield
        return
    watch = ConfigurationWatch(seen, reload=reload)
    ended = threading.Event()
    thread = threading.Thread(target=_look, args=(watch, ended, every), name="configuration", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _look(watch: ConfigurationWatch, ended: threading.Event, every: timedelta) -> None:
    while not ended.wait(every.total_seconds()):
        with edge("configuration_watch_failed"):  # the daemon goes on with the configuration that it has
            watch.look()


def serve(
    config_file: Path,
    *,
    formats: Mapping[str, TableFormat] = FORMATS,
    worker: Sequence[str] = WORKER,
    reader: Sequence[str] = READER,
) -> int:
    """Run the daemon until a signal ends it and it has drained. Raises PermanentError if it cannot start.

    `worker` and `reader` are the commands of its child processes, which must know the same formats.
    """
    reloads = hang_up_reloads()
    seen = SeenFile.of(config_file)
    config, redacted, base = configured(config_file, formats)
    stand_by(config.settings.daemon.drain + STEP_BACK + GRACE, hang_up_ends=not reloads)
    with ExitStack() as life:
        folder = _locked(config, life)
        store = _opened(config.settings, folder, life)
        clock = CautiousClock(SystemClock())
        rows = store.registrations()
        tables = with_rows(Tables(config=config, base=base), rows, formats=formats)
        config, all_tables, settings = tables.config, tables.known, tables.config.settings
        metrics = _metrics(config, all_tables)
        traces = traces_to(settings.traces, clock, life)
        storages = Storages(settings.storage, roots=config.roots)
        readers = _readers(config, clock, metrics, reader, life)
        run_logs = RunLogs(folder.path / "run-logs", each=settings.history.run_log, total=settings.history.run_logs)
        pools = _maker(settings, folder.path, worker, metrics, logs=run_logs)
        composed = compose(
            tables=tables.listed,
            resources=Resources(
                pools=pools(all_tables, settings.spark),
                store=store,
                clock=clock,
                listener=Listeners([metrics, EventLog(), *([traces] if traces else [])]),
                formats=formats,
                storages=storages,
                readers=readers,
                run_logs=run_logs,
            ),
            sources=sources_of(config.discover, storages),
            drain=settings.daemon.drain,
            limits=_limits(settings.permits),
            lease=settings.daemon.lease,
            alone=not settings.database.shared,  # otherwise the lock of the data folder proves it
            unproved=(lambda: None) if settings.database.shared else folder.lost,
            url=settings.api.peer,
        )
        metrics.watch(composed.status, clock=clock)
        in_force = TablesInForce(
            tables, storages=storages, served=_reached(config, all_tables), pools_of=pools, offer=composed.offer
        )
        registrar = Registrar(in_force, rows, store=store, clock=clock, formats=formats, registered=composed.registered)
        reloader = Reloader(
            config_file,
            started_with=at_start(base.values),
            formats=formats,
            clock=clock,
            in_force=in_force,
            rows=lambda: registrar.rows,
            tell=partial(_show_reload, metrics, redacted),
        )
        servers = bind_ports(
            settings,
            composed.status,
            clock=clock,
            formats=formats,
            registry=metrics.registry,
            hook_heard=heard_by(metrics, traces),
            refused=metrics.refused,
            identify=identify_by(settings.access, store, clock, life=life),
            sign_ins=sign_ins_of(settings),
            configuration=ConfigurationPart(shown=redacted, reloading=reloader, registering=registrar),
        )
        life.enter_context(_kept(settings, store, clock, composed, run_logs=run_logs))
        life.enter_context(catching_up(registrar, alone=not settings.database.shared))
        stop_on_signals(composed.daemon.stop, reload=reloader.reload if reloads else None)
        life.enter_context(watched(seen, reloader.reload, every=settings.daemon.watch_configuration))
        composed.daemon.start()
        favour_hooks()
        for server in servers:
            life.enter_context(server.or_else(composed.daemon.stop))
        log.info("serving", tables=len(tables.listed), **{server.name: server.port for server in servers})
        composed.daemon.run()
    log.info("stopped")
    return 0


def configured(config_file: Path, formats: Mapping[str, TableFormat]) -> tuple[Config, Redacted, Base]:
    """Return the configuration without the settings of tables, as it is shown, and what registrations are judged by.
    Raises PermanentError if it has an error.

    Each table has its settings. The file and the settings of thousands of tables would need more memory than they do.
    """
    examined = examine(config_file, to_serve=True, formats=formats)
    config = examined.accepted()
    set_up_logs(config.settings.log.format, config.settings.log.level)
    warnings = [*examined.of(Weight.WARNING)]
    for warning in warnings[:MOST_A_MINUTE]:
        log.warning("configuration_warning", problem=warning)
    if len(warnings) > MOST_A_MINUTE:
        untold = f"{len(warnings) - MOST_A_MINUTE} further warnings: 'lakewarden check-config' prints them"
        log.warning("configuration_warning", problem=untold)
    settings = config.settings.model_copy(update={"tables": ()})
    base = base_of(config, examined.document.values or {}, config_file)
    return replace(config, settings=settings), Redacted(config.settings), base


def _locked(config: Config, life: ExitStack) -> DataFolder:
    """Return the data folder, which this daemon owns. It is released with `life`."""
    folder = DataFolder(config.data_dir)
    life.callback(folder.release)
    return folder


def _opened(settings: Configuration, folder: DataFolder, life: ExitStack) -> Store:
    """Return the store. It is closed with `life`."""
    store = open_patiently(settings.database, data_dir=folder.path)
    life.callback(store.close)
    if not settings.database.shared:
        folder.keeps(file_of(folder.path))
    return store


def _metrics(config: Config, tables: Sequence[Table]) -> Metrics:
    return Metrics(
        {service for table in tables for service in table.policies},
        sources={discover.catalog.name for discover in config.discover},
        table_series=config.settings.management.table_series,
    )


def _maker(settings: Configuration, folder: Path, worker: Sequence[str], metrics: Metrics, *, logs: RunLogs) -> PoolsOf:
    """Return what makes the pools that tables need."""
    return lambda tables, profiles: pools_of(
        profiles,
        tables,
        settings.storage,
        directory=folder,
        worker=worker,
        restarted=metrics.worker_restarted,
        follow=settings.log.workers,
        logs=logs,
    )


def _reached(config: Config, tables: Sequence[Table]) -> Mapping[str, WorkerReach]:
    """Return what the workers of each pool reach from the start."""
    spark = config.settings.spark
    reaches = served_by(tables, config.settings.storage)
    return {name: replace(reach, formats=frozenset(spark[name].formats)) for name, reach in reaches.items()}


def _show_reload(metrics: Metrics, redacted: Redacted, outcome: ReloadOutcome, config: Config | None) -> None:
    """Show the result of reading the configuration again."""
    metrics.configuration_read(accepted=outcome.accepted)
    if config is not None:
        redacted.show(config.settings)


def _readers(config: Config, clock: Clock, metrics: Metrics, command: Sequence[str], life: ExitStack) -> ProcessReaders:
    """Return the readers. They are closed with `life`."""
    readers = ProcessReaders(
        settings=config.settings.reading,
        stores=config.settings.storage,
        roots=config.roots,
        clock=clock,
        ended=metrics.reader_ended,
        command=command,
    )
    life.callback(readers.close)
    return readers


@contextmanager
def _kept(
    settings: Configuration,
    store: Store,
    clock: Clock,
    composed: ComposedDaemon,
    *,
    run_logs: RunLogs,
) -> Iterator[None]:
    """Keep the store tidy inside the `with` block."""
    with (
        watching(store),
        housekeeping(
            store,
            clock,
            registered=composed.registered,
            keep=Keeping(
                runs=settings.daemon.keep_runs, acts=settings.daemon.keep_audit, changes=settings.history.keep
            ),
            run_logs=run_logs,
        ),
    ):
        yield


def _limits(permits: PermitSettings) -> Limits:
    return Limits(
        max_wait_for_writers=permits.max_wait_for_writers,
        max_wait_to_commit=permits.max_wait_to_commit,
        joined_step=permits.joined_step,
        step=permits.step,
    )
