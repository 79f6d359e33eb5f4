"""Traces: nothing of OpenTelemetry is imported without them."""

from __future__ import annotations

from contextlib import ExitStack

from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.errors import PermanentError
from lakewarden.service.config.daemon.traces import TraceSettings
from lakewarden.service.model.heard import HeardHook, OnHook
from lakewarden.service.reporting.metrics import Metrics
from lakewarden.service.reporting.tracing.recording import RunTraces


def traces_to(settings: TraceSettings, clock: Clock, life: ExitStack) -> RunTraces | None:
    """Return what tells the collector of the runs, until `life` ends. None without a collector.

    Raises PermanentError if the extra is not installed.
    """
    if settings.endpoint is None:
        return None
    try:
        from lakewarden.service.reporting.tracing.exporting import Collector  # noqa: PLC0415 - an extra
    except ImportError as missing:
        raise PermanentError(
            f"traces.endpoint needs the extra otel, and {missing.name} is not installed: "
            "run pip install 'lakewarden[otel]', or remove traces.endpoint"
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
