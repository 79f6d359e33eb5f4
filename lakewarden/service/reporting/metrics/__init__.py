"""The metrics for Prometheus. Counters get the events of the daemon. Gauges are read when they are scraped."""

from lakewarden.service.reporting.metrics.registry import HOOK_RESULTS, HOOK_SENDERS, Metrics

__all__ = ["HOOK_RESULTS", "HOOK_SENDERS", "Metrics"]
