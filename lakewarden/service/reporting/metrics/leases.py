"""The metrics of the lease of the replica, and of the catalogs that are listed."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge

from lakewarden.service.events import Listener
from lakewarden.service.model.table_sources import FoundTables


class LeaseMetrics(Listener):
    """Counts what happens to the lease of the replica."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._failures = Counter(
            "lakewarden_lease_renew_failures",
            "Renewals of this replica's lease that failed or were late.",
            registry=registry,
        )
        self._losses = Counter(
            "lakewarden_lease_losses",
            "Times that this replica lost its lease and killed its workers.",
            registry=registry,
        )

    def renewal_failed(self, reason: str) -> None:
        """Count a failed renewal."""
        self._failures.inc()

    def lease_lost(self, reason: str) -> None:
        """Count a loss."""
        self._losses.inc()


class DiscoveryMetrics(Listener):
    """Shows what the listings of catalogs found, and counts failed listings."""

    def __init__(self, registry: CollectorRegistry, sources: Iterable[str]) -> None:
        """Create the counter of each source."""
        self._listed = Gauge(
            "lakewarden_discovery_tables",
            "Tables that the last listing of a catalog returned.",
            ["source"],
            registry=registry,
        )
        self._unregistered = Gauge(
            "lakewarden_discovery_refused_tables",
            "Tables in the last listing of a catalog that could not be registered. The log has the reasons.",
            ["source"],
            registry=registry,
        )
        self._unlisted = Gauge(
            "lakewarden_discovery_unlisted_namespaces",
            "Namespaces that a catalog could not list the last time. Their tables stay registered.",
            ["source"],
            registry=registry,
        )
        self._failures = Counter(
            "lakewarden_discovery_failures",
            "Listings of a catalog that failed as a whole.",
            ["source"],
            registry=registry,
        )
        for source in sources:
            self._failures.labels(source)

    def discovered(self, source: str, listing: FoundTables) -> None:
        """Show how many tables were found, and how many could not be listed or registered."""
        self._listed.labels(source).set(len(listing.tables))
        self._unlisted.labels(source).set(len(listing.unlisted))
        self._unregistered.labels(source).set(len(listing.refused))

    def discovery_failed(self, source: str, reason: str) -> None:
        """Count a failed listing."""
        self._failures.labels(source).inc()
