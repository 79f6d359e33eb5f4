"""What Prometheus scrapes. Counters hear the road's events; what can be seen is read when it is scraped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from itertools import product

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, disable_created_metrics
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

import lakewarden
from lakewarden.executors.contract import Granted, Permit, Step, Wait
from lakewarden.planners.lock_proof import Verdict
from lakewarden.planners.model.decision import Blocked, Decision
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.printable import printable
from lakewarden.planners.model.table import Table
from lakewarden.service.control.plane import ControlPlane, ReplicaStatus, TableStatus
from lakewarden.service.events.listener import Listener
from lakewarden.service.model.found import Found
from lakewarden.service.model.refusals import REFUSALS
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.reporting import retention
from lakewarden.service.rules.writer_failures import Blamed
from lakewarden.service.state.readers.port import EndReason

HOOK_SENDERS = ("hudi", "iceberg", "polaris", "cloudevents")
HOOK_RESULTS = ("accepted", "unknown_table", "ignored", "malformed", "too_large")
_SECONDS = (0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 14400)
_WAITS = (0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 300, 600)

_PROOF = {Verdict.PROVED: 1, Verdict.UNKNOWN: 0, Verdict.DISPROVED: -1}


class Metrics(Listener):
    """The counters and histograms, and the registry that holds everything."""

    def __init__(self, services: Iterable[Service]) -> None:
        """Make every series that can be foreseen, so that a rate is known from its first event on."""
        # Without this there is a second series for each counter, that says when this process began.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        Info("lakewarden_build", "What runs here.", registry=self.registry).info({"version": lakewarden.__version__})
        self._runs = Counter("lakewarden_runs", "Runs that ended.", ["service", "outcome"], registry=self.registry)
        self._run_seconds = Histogram(
            "lakewarden_run_duration_seconds",
            "From the moment a worker was given a run to its settled end.",
            ["service"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._permit_waits = Histogram(
            "lakewarden_permit_wait_seconds",
            "How long runs waited for leave to take a step.",
            ["service", "step"],
            buckets=_WAITS,
            registry=self.registry,
        )
        self._refused = Counter(
            "lakewarden_permits_refused", "Steps that were refused.", ["service", "step"], registry=self.registry
        )
        self._hooks = Counter("lakewarden_hooks", "Commit hooks.", ["sender", "result"], registry=self.registry)
        self._turned = Counter(
            "lakewarden_http_refused",
            "Connections and requests that a port turned away, by the reason.",
            ["port", "kind"],
            registry=self.registry,
        )
        self._readers = Counter(
            "lakewarden_readers_ended",
            "Processes that read tables and were ended, or ended, before their time.",
            ["reason"],
            registry=self.registry,
        )
        self._troubles = Counter(
            "lakewarden_table_troubles", "Looks at tables that brought nothing.", registry=self.registry
        )
        self._found_tables = Gauge(
            "lakewarden_discovery_tables",
            "Tables that a catalog told of when it was last asked.",
            ["source"],
            registry=self.registry,
        )
        self._unregistered = Gauge(
            "lakewarden_discovery_refused_tables",
            "Tables that a catalog told of when it was last asked, and that cannot be registered: the log says why.",
            ["source"],
            registry=self.registry,
        )
        self._unlisted = Gauge(
            "lakewarden_discovery_unlisted_namespaces",
            "Namespaces that a catalog could not list when it was last asked: their tables stay what they were.",
            ["source"],
            registry=self.registry,
        )
        self._undiscovered = Counter(
            "lakewarden_discovery_failures",
            "Times that a catalog could list nothing.",
            ["source"],
            registry=self.registry,
        )
        self._decisions = Counter(
            "lakewarden_decisions", "Decisions that were new.", ["service", "decision"], registry=self.registry
        )
        self._writer_failures = Counter(
            "lakewarden_writer_failures",
            "Writes that did not become commits; what met a plan or a commit of ours counts as caused by us.",
            ["table", "near_us"],
            registry=self.registry,
        )
        self._renewals = self._counter("lakewarden_lease_renewals", "Renewals of this replica's lease.")
        self._renew_failures = self._counter(
            "lakewarden_lease_renew_failures", "Renewals that the store did not answer, or not in time."
        )
        self._losses = self._counter(
            "lakewarden_tenure_losses", "Times that this replica could not renew its lease, and killed its workers."
        )
        self._rejections = self._counter(
            "lakewarden_fence_rejections", "Late results of runs that somebody else had taken over."
        )
        self._adoptions = self._counter("lakewarden_adopted_runs", "Runs of dead replicas that were taken over.")
        for service in services:
            self._foresee(service)
        for sender, result in product(HOOK_SENDERS, HOOK_RESULTS):
            self._hooks.labels(sender, result)
        for port, refusal in product(("api", "hooks", "management"), REFUSALS):
            self._turned.labels(port, refusal.kind)
        for reason in EndReason:
            self._readers.labels(reason)

    def _foresee(self, service: Service) -> None:
        self._run_seconds.labels(service)
        for state in (RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED):
            self._runs.labels(service, state.lower())
        for step in Step:
            self._permit_waits.labels(service, step)
            self._refused.labels(service, step)

    def _counter(self, name: str, meaning: str) -> Counter:
        return Counter(name, meaning, registry=self.registry)

    def watch(self, plane: ControlPlane) -> None:
        """Let scrapes read the control plane."""
        for status in plane.tables():
            for near_us in (True, False):
                self._writer_failures.labels(printable(status.table.id), str(near_us).lower())
        self.registry.register(_Seen(plane))

    def hook(self, sender: str, result: str) -> None:
        """Count a hook."""
        self._hooks.labels(sender, result).inc()

    def refused(self, port: str, kind: str) -> None:
        """Count what a port turned away."""
        self._turned.labels(port, kind).inc()

    def reader_ended(self, reason: EndReason) -> None:
        """Count a process that read tables and reads none any more."""
        self._readers.labels(reason).inc()

    def decided(self, table: Table, service: Service, decision: Decision) -> None:
        """Count a decision whose outcome or reason is new."""
        self._decisions.labels(service, type(decision).__name__).inc()

    def permit(self, run: Run, step: Step, permit: Permit, waited: timedelta) -> None:
        """Measure how long a question stood open."""
        if isinstance(permit, Wait):
            return
        self._permit_waits.labels(run.service, step).observe(waited.total_seconds())
        if not isinstance(permit, Granted):
            self._refused.labels(run.service, step).inc()

    def ended(self, run: Run) -> None:
        """Count a run that ended and measure it."""
        if not run.state.ended:
            return
        self._runs.labels(run.service, run.state.lower()).inc()
        if run.started_at is not None and run.ended_at is not None:
            self._run_seconds.labels(run.service).observe((run.ended_at - run.started_at).total_seconds())

    def discovered(self, source: str, found: Found) -> None:
        """Show how many tables there are, and of what nothing is known or nothing can be made."""
        self._found_tables.labels(source).set(len(found.tables))
        self._unlisted.labels(source).set(len(found.unlisted))
        self._unregistered.labels(source).set(len(found.refused))

    def discovery_failed(self, source: str, reason: str) -> None:
        """Count it."""
        self._undiscovered.labels(source).inc()

    def trouble(self, table: Table, reason: str) -> None:
        """Count a look that brought nothing."""
        self._troubles.inc()

    def writer_failed(self, table: Table, blamed: Blamed) -> None:
        """Count a failure of a writer."""
        self._writer_failures.labels(printable(table.id), str(blamed.run is not None).lower()).inc()

    def renewed(self) -> None:
        """Count a renewal."""
        self._renewals.inc()

    def renewal_failed(self, reason: str) -> None:
        """Count a renewal that brought nothing."""
        self._renew_failures.inc()

    def tenure_lost(self, reason: str) -> None:
        """Count a loss."""
        self._losses.inc()

    def rejected(self, run: Run, reason: str) -> None:
        """Count a late result."""
        self._rejections.inc()

    def adopted(self, run: Run) -> None:
        """Count a run that was taken over."""
        self._adoptions.inc()


class _Seen(Collector):
    """Gauges of what can be seen now."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane

    def describe(self) -> Iterable[Metric]:
        """Name nothing beforehand: looking at the plane at registration would be too early."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Read every table and pool."""
        statuses = self._plane.tables()
        yield from _pending(statuses)
        yield from _piles(statuses)
        yield from retention.savepoints(statuses)
        yield from retention.readers(statuses)
        yield from _tables(statuses)
        slots = GaugeMetricFamily("lakewarden_pool_slots", "Slots of the session pools.", labels=["spark", "state"])
        for profile, room in self._plane.rooms().items():
            slots.add_metric([profile, "free"], room.free)
            slots.add_metric([profile, "used"], room.slots - room.free)
        yield slots
        waiting = GaugeMetricFamily("lakewarden_runs_waiting", "Runs that stand at a question for a permit.")
        waiting.add_metric([], len(self._plane.waiting()))
        yield waiting
        yield from _replicas(self._plane.replicas())
        turned = GaugeMetricFamily("lakewarden_control_turn_age_seconds", "Since the control thread last turned.")
        turned.add_metric([], self._plane.health().turned_ago.total_seconds())
        yield turned


def _replicas(known: Sequence[ReplicaStatus]) -> Iterator[Metric]:
    attended = GaugeMetricFamily("lakewarden_tables_attended", "Tables that this replica attends.")
    attended.add_metric([], sum(replica.tables for replica in known if replica.here))
    yield attended
    replicas = GaugeMetricFamily("lakewarden_replicas", "Daemons on the store whose leases run.")
    replicas.add_metric([], sum(replica.alive for replica in known))
    yield replicas


def _pending(statuses: Iterable[TableStatus]) -> Iterator[Metric]:
    count = GaugeMetricFamily(
        "lakewarden_table_pending_instants", "Instants that wait to be completed.", labels=["table", "service"]
    )
    first = GaugeMetricFamily(
        "lakewarden_table_first_pending_timestamp_seconds",
        "When the oldest pending instant was requested.",
        labels=["table", "service"],
    )
    backlog = {
        figure: GaugeMetricFamily(f"lakewarden_table_{name}", meaning, labels=["table", "service"])
        for figure, name, meaning in (
            ("commits", "commits_since", "Commits since the service last completed."),
            ("files", "backlog_files", "Files that the service has to rewrite, where the format counts them."),
            ("bytes", "backlog_bytes", "Bytes of these files."),
        )
    }
    for status in statuses:
        if status.view is None:
            continue
        for service in sorted({*status.table.policies, *status.view.backlogs}):
            labels = [printable(status.table.id), service.value]
            pending = status.view.timeline.pending(service)
            count.add_metric(labels, len(pending))
            if pending:
                first.add_metric(labels, pending[0].requested_at.timestamp())
            known = status.view.backlogs.get(service)
            for figure, family in backlog.items():
                if (value := getattr(known, figure, None)) is not None:
                    family.add_metric(labels, value)
    yield count
    yield first
    yield from backlog.values()


def _piles(statuses: Iterable[TableStatus]) -> Iterator[Metric]:
    """Measure what has piled up in files, where the format counts them."""
    piles = {
        "log_files": GaugeMetricFamily(
            "lakewarden_table_log_files", "Log files of the file group with the most.", labels=["table"]
        ),
        "log_bytes": GaugeMetricFamily(
            "lakewarden_table_log_bytes", "Bytes of log files of the file group with the most.", labels=["table"]
        ),
        "small_files": GaugeMetricFamily(
            "lakewarden_table_small_files", "Base files that a rewrite would make fewer.", labels=["table"]
        ),
    }
    metadata = GaugeMetricFamily(
        "lakewarden_table_metadata_commits_since",
        "Commits of the table's own metadata table since that was compacted.",
        labels=["table"],
    )
    for status in statuses:
        if status.view is None:
            continue
        for figure, family in piles.items():
            known = [count for b in status.view.backlogs.values() if (count := getattr(b, figure)) is not None]
            if known:
                family.add_metric([printable(status.table.id)], max(known))
        if status.view.metadata is not None:
            metadata.add_metric([printable(status.table.id)], status.view.metadata.commits)
    yield from piles.values()
    yield metadata


def _tables(statuses: Iterable[TableStatus]) -> Iterator[Metric]:
    age = GaugeMetricFamily(
        "lakewarden_table_poll_age_seconds", "Since the table was last looked at.", labels=["table"]
    )
    writes = GaugeMetricFamily("lakewarden_table_writes_in_flight", "Writes begun and not ended.", labels=["table"])
    trouble = GaugeMetricFamily("lakewarden_table_trouble", "1 while the table cannot be observed.", labels=["table"])
    claims = GaugeMetricFamily(
        "lakewarden_foreign_claims", "1 while a daemon with another store has claimed the table.", labels=["table"]
    )
    locks = GaugeMetricFamily(
        "lakewarden_table_lock_proved",
        "1 where writers were seen to hold the lock that is named, 0 where that is not known, -1 where one did not.",
        labels=["table"],
    )
    approvals = GaugeMetricFamily(
        "lakewarden_table_approvals_waiting", "Deletions that wait for a person's approval.", labels=["table"]
    )
    back = GaugeMetricFamily(
        "lakewarden_table_steps_back",
        "How often in a row the runs of a service have stepped back for a writer, or failed for a time.",
        labels=["table", "service"],
    )
    blocked = GaugeMetricFamily(
        "lakewarden_table_service_blocked",
        "1 while a service that has a policy is blocked: explain says by what.",
        labels=["table", "service"],
    )
    for status in statuses:
        labels = [printable(status.table.id)]
        for service, known in status.steps_back.items():
            back.add_metric([*labels, service.value], known.times)
        for service in status.table.policies:
            if (decision := status.decisions.get(service)) is not None:
                blocked.add_metric([*labels, service.value], int(isinstance(decision, Blocked)))
        if status.looked_ago is not None:
            age.add_metric(labels, status.looked_ago.total_seconds())
        if status.view is not None:
            writes.add_metric(labels, len(status.view.writers.in_flight))
        trouble.add_metric(labels, 0 if status.trouble is None else 1)
        claims.add_metric(labels, 0 if status.claimed is None else 1)
        if status.lock is not None:
            locks.add_metric(labels, _PROOF[status.lock.verdict])
        approvals.add_metric(labels, len(status.approvals))
    yield age
    yield writes
    yield trouble
    yield claims
    yield locks
    yield approvals
    yield back
    yield blocked
