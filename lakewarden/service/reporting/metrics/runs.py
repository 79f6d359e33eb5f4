"""The metrics of runs."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram

from lakewarden.planners.model.instant import Service
from lakewarden.service.events import Listener
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.rules.permits import lock_bounds

_DURATIONS = (0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 14400)
_WAITS = (0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 300, 600)
_QUEUE_WAITS = (0.1, 1, 5, 10, 30, 60, 300, 600, 1800, 3600, 14400, 86400)


class RunMetrics(Listener):
    """Counts and measures runs by their service."""

    def __init__(self, registry: CollectorRegistry, services: Iterable[Service]) -> None:
        """Create every series of `services`, so that a rate is known from its first event on."""
        self._runs = Counter("lakewarden_runs", "Runs that ended.", ["service", "outcome"], registry=registry)
        self._durations = Histogram(
            "lakewarden_run_duration_seconds",
            "Time from the start of a run on a worker until its end was settled.",
            ["service"],
            buckets=_DURATIONS,
            registry=registry,
        )
        self._queue_waits = Histogram(
            "lakewarden_queue_wait_seconds",
            "Time from the request of a run until a slot of a worker took it.",
            ["service"],
            buckets=_QUEUE_WAITS,
            registry=registry,
        )
        self._lock_holds = Histogram(
            "lakewarden_lock_hold_seconds",
            "Longest time for which a step of a run can have held the lock of the table. Writers wait meanwhile.",
            ["service"],
            buckets=_WAITS,
            registry=registry,
        )
        self._rewritten = Counter(
            "lakewarden_rewritten_bytes", "Bytes that runs have rewritten.", ["service"], registry=registry
        )
        self._removed_bytes = Counter(
            "lakewarden_removed_bytes",
            "Bytes of the files that runs have deleted, if the service knows the sizes.",
            ["service"],
            registry=registry,
        )
        for service in services:
            self._foresee(service)

    def _foresee(self, service: Service) -> None:
        for measured in (self._durations, self._queue_waits, self._lock_holds):
            measured.labels(service)
        for counted in (self._rewritten, self._removed_bytes):
            counted.labels(service)
        for state in (state for state in RunState if state.ended):
            self._runs.labels(service, state.lower())

    def started(self, run: Run) -> None:
        """Measure how long a run was in the queue."""
        if run.started_at is not None:
            waited = (run.started_at - run.created_at).total_seconds()
            self._queue_waits.labels(run.service).observe(max(0.0, waited))

    def ended(self, run: Run) -> None:
        """Count a run that ended and measure it."""
        if not run.state.ended:
            return
        self._runs.labels(run.service, run.state.lower()).inc()
        if run.started_at is not None and run.ended_at is not None:
            took = (run.ended_at - run.started_at).total_seconds()
            self._durations.labels(run.service).observe(max(0.0, took))
        if bounds := lock_bounds(run):
            self._lock_holds.labels(run.service).observe(max(bounds))
        self._rewritten.labels(run.service).inc(_number(run, "bytes_rewritten"))
        self._removed_bytes.labels(run.service).inc(_number(run, "bytes_deleted"))


def _number(run: Run, figure: str) -> float:
    """Return a figure of a run. It is 0 if the run has none, or none that can be counted."""
    value = run.figures.get(figure, 0)
    return max(0.0, float(value)) if isinstance(value, int | float) else 0.0
