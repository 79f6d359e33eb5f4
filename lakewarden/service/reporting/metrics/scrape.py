"""What is read at each scrape: the tables, the pools and the replicas, as the control plane shows them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from lakewarden.planners.model.clock import Clock, SystemClock
from lakewarden.planners.model.table import TableId
from lakewarden.service.control.plane import ControlPlane, Health, ReplicaStatus
from lakewarden.service.control.table_statuses import TableStatus
from lakewarden.service.reporting.metrics import fleet
from lakewarden.service.reporting.metrics.table_figures import Figures, known_of, polled_of, seen_in
from lakewarden.service.reporting.metrics.table_limit import choose, measured, rank_of
from lakewarden.service.reporting.metrics.writer_failures import WriterFailures

CHOSEN_FOR_SECONDS = 60.0
"""For so long the same tables have series of their own. Then the choice is made anew."""


class _Measured(NamedTuple):
    status: TableStatus
    seen: Figures
    known: Figures


class Scrape(Collector):
    """Reads everything at a scrape, in the thread of the scrape. The control thread is never asked."""

    def __init__(
        self, plane: ControlPlane, failures: WriterFailures, *, limit: int, clock: Clock | None = None
    ) -> None:
        """`limit` is how many tables have series of their own."""
        self._plane = plane
        self._failures = failures
        self._limit = limit
        self._clock = clock or SystemClock()
        self._measured: Mapping[TableId, _Measured] = {}
        self._chosen: frozenset[TableId] = frozenset()
        self._chosen_at = float("-inf")

    def describe(self) -> Iterable[Metric]:
        """Describe nothing, because the plane cannot be read at registration."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Read every table and pool."""
        statuses, now = self._plane.tables(), self._clock.now()
        tables = self._measured_anew(statuses)
        yield from self._tables(tables)
        yield from fleet.backlogs([(status, seen) for status, seen, _ in tables.values()], now=now)
        yield from fleet.decisions(statuses)
        services = {service for status in statuses for service in status.table.policies}
        yield from fleet.active_runs((run for status in statuses for run in status.active), services, now=now)
        yield from self._failures.collected([status.table.id for status in statuses])
        yield from self._daemon()

    def _measured_anew(self, statuses: Sequence[TableStatus]) -> Mapping[TableId, _Measured]:
        """Return what the views say and what the daemon knows. Only tables with a new status are measured."""
        before, tables = self._measured, dict[TableId, _Measured]()
        for status in statuses:
            entry = before.get(status.table.id)
            if entry is None or entry.status is not status:
                entry = _Measured(status, seen_in(status.view, status.table), known_of(status))
            tables[status.table.id] = entry
        self._measured = tables
        return tables

    def _tables(self, tables: Mapping[TableId, _Measured]) -> Iterator[Metric]:
        ago = self._plane.polled_ago
        both = {table: (seen, known) for table, (_, seen, known) in tables.items()}
        all_three = {table: (*both[table], polled_of(entry.status, ago(table))) for table, entry in tables.items()}
        yield from measured(all_three, own=self._choice(both))

    def _choice(self, both: Mapping[TableId, tuple[Figures, Figures]]) -> frozenset[TableId]:
        """Return the tables with series of their own. The choice is made anew after a while, or if tables are fewer."""
        if len(both) <= self._limit:
            return frozenset(both)
        now = self._clock.monotonic()
        if now - self._chosen_at >= CHOSEN_FOR_SECONDS or not self._chosen <= both.keys() or not self._chosen:
            ranks = {table: rank_of(*parts) for table, parts in both.items()}
            self._chosen = choose(ranks, limit=self._limit, before=self._chosen)
            self._chosen_at = now
        return self._chosen

    def _daemon(self) -> Iterator[Metric]:
        slots = GaugeMetricFamily("lakewarden_pool_slots", "Slots of a session pool.", labels=["spark", "state"])
        held = GaugeMetricFamily(
            "lakewarden_pool_held",
            "1 while a session pool starts no run, or only one, because several workers in a row could not work.",
            labels=["spark"],
        )
        for profile, capacity in self._plane.capacities().items():
            slots.add_metric([profile, "free"], capacity.free)
            slots.add_metric([profile, "used"], capacity.in_use)
            slots.add_metric([profile, "resting"], capacity.resting)
            held.add_metric([profile], int(capacity.held is not None))
        yield slots
        yield held
        yield from _replicas(self._plane.replicas())
        yield from _health(self._plane.health())


def _health(health: Health) -> Iterator[Metric]:
    turned = GaugeMetricFamily("lakewarden_control_turn_age_seconds", "Time since the last turn of the control thread.")
    turned.add_metric([], health.turned_ago.total_seconds())
    yield turned
    ready = GaugeMetricFamily("lakewarden_ready", "1 if the daemon is ready, else 0. `/readyz` says what is missing.")
    ready.add_metric([], not health.unready)
    yield ready
    store = GaugeMetricFamily("lakewarden_store_available", "1 if the store answered the last time, else 0.")
    store.add_metric([], health.store_away is None)
    yield store


def _replicas(statuses: Sequence[ReplicaStatus]) -> Iterator[Metric]:
    owned = GaugeMetricFamily("lakewarden_tables_owned", "Tables that this replica owns.")
    owned.add_metric([], sum(replica.tables for replica in statuses if replica.here))
    yield owned
    replicas = GaugeMetricFamily("lakewarden_replicas", "Replicas on the store with a valid lease.")
    replicas.add_metric([], sum(replica.alive for replica in statuses))
    yield replicas
