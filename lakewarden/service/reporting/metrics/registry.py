"""The registry with every metric of the daemon, and the counters of its ports and its child processes."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from prometheus_client import CollectorRegistry, Counter, Gauge, Info, ProcessCollector, disable_created_metrics

import lakewarden
from lakewarden.executors.contract import WorkerEnd
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.instant import Service
from lakewarden.planners.registry import FORMATS
from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.events import Listeners
from lakewarden.service.model.problems import ENDED, REFUSALS
from lakewarden.service.model.received_hook import HeardHook
from lakewarden.service.reporting.metrics.leases import DiscoveryMetrics, LeaseMetrics
from lakewarden.service.reporting.metrics.runs import RunMetrics
from lakewarden.service.reporting.metrics.scrape import Scrape
from lakewarden.service.reporting.metrics.writer_failures import WriterFailures
from lakewarden.service.state.readers.port import EndReason

HOOK_SENDERS = tuple(
    sender for FORMAT in FORMATS.values() if FORMAT.commit_hook is not None for sender in FORMAT.commit_hook.senders
)
HOOK_RESULTS = ("accepted", "unknown_table", "ignored", "malformed", "too_large")
_PORTS = ("api", "management")

TABLE_SERIES = 500
"""How many tables have series of their own if the configuration does not say it."""


class Metrics(Listeners):
    """Every metric of the daemon. It passes the events of the daemon to the metrics that count them."""

    def __init__(
        self, services: Iterable[Service], *, sources: Iterable[str] = (), table_series: int = TABLE_SERIES
    ) -> None:
        """Create every series that is known in advance, so that a rate is known from its first event on.

        `sources` are the names of the catalogs that are listed. `table_series` is how many tables have series of their
        own.
        """
        # Otherwise each counter has a second series, with the start time of this process.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        Info("lakewarden_build", "The version of Lakewarden that runs.", registry=self.registry).info(
            {"version": lakewarden.__version__}
        )
        ProcessCollector(registry=self.registry)  # of the daemon's process: its workers and their JVMs are others
        self._failures = WriterFailures(limit=table_series)
        self._table_series = table_series
        self._hooks = self._counter("lakewarden_hooks", "Commit hooks that were received.", "sender", "result")
        self._turned = self._counter(
            "lakewarden_http_refused", "Connections and requests that a port refused.", "port", "kind"
        )
        self._configuration = Gauge(
            "lakewarden_configuration_accepted",
            "1 if the configuration that was read last is in force, 0 if it was refused.",
            registry=self.registry,
        )
        self._configuration.set(1)
        self._readers = self._counter(
            "lakewarden_readers_ended", "Reader processes that were killed or died.", "reason"
        )
        self._restarts = self._counter(
            "lakewarden_worker_restarts", "Session workers that ended, and were started again.", "spark", "reason"
        )
        super().__init__(
            [
                RunMetrics(self.registry, services),
                LeaseMetrics(self.registry),
                DiscoveryMetrics(self.registry, sources),
                self._failures,
            ]
        )
        for sender, result in product(HOOK_SENDERS, HOOK_RESULTS):
            self._hooks.labels(sender, result)
        for port, kind in product(_PORTS, (*ENDED, *(refusal.kind for refusal in REFUSALS))):
            self._turned.labels(port, kind)
        for reason in EndReason:
            self._readers.labels(reason)

    def _counter(self, name: str, meaning: str, *labels: str) -> Counter:
        return Counter(name, meaning, labels, registry=self.registry)

    def watch(self, plane: ControlPlane, *, clock: Clock | None = None) -> None:
        """Let scrapes read the control plane."""
        for profile, reason in product(plane.capacities(), WorkerEnd):
            self._restarts.labels(profile, reason)
        self.registry.register(Scrape(plane, self._failures, limit=self._table_series, clock=clock))

    def hook(self, heard: HeardHook) -> None:
        """Count a hook."""
        self._hooks.labels(heard.sender, heard.result).inc()

    def configuration_read(self, *, accepted: bool) -> None:
        """Show whether the configuration that was read last is in force."""
        self._configuration.set(accepted)

    def refused(self, port: str, kind: str) -> None:
        """Count a refusal of a port."""
        self._turned.labels(port, kind).inc()

    def reader_ended(self, reason: EndReason) -> None:
        """Count a reader process that has ended."""
        self._readers.labels(reason).inc()

    def worker_restarted(self, profile: str, reason: WorkerEnd) -> None:
        """Count a session worker that has ended and is started again."""
        self._restarts.labels(profile, reason).inc()
