"""The figures of all tables together, by service and format. They exist from the start, however many tables there
are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import product

from prometheus_client.core import GaugeMetricFamily, Metric

from lakewarden.planners.model.instant import Service
from lakewarden.service.control.table_statuses import TableStatus
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.reporting.metrics import families as of
from lakewarden.service.reporting.metrics.families import Family, Key
from lakewarden.service.reporting.metrics.table_figures import Figures
from lakewarden.service.reporting.metrics.table_limit import folded

DECISIONS = ("Due", "NotDue", "WouldRun", "Blocked", "DoesNotApply")
"""The names of the decisions."""

_UNDECIDED = "Undecided"
_ACTIVE = tuple(state for state in RunState if not state.ended)
_SERVED = ("service", "format")
_SUMMED = (
    (of.COMMITS_SINCE, "lakewarden_backlog_commits", "Commits since the service last completed, of all tables."),
    (of.BACKLOG_BYTES, "lakewarden_backlog_bytes", "Bytes that the service has to rewrite, of all tables."),
)


def backlogs(seen: Sequence[tuple[TableStatus, Figures]], *, now: datetime) -> Iterator[Metric]:
    """Measure the work that has piled up in all tables."""
    served = sorted({(service, status.table.format) for status, _ in seen for service in status.table.policies})
    by_format: dict[str, list[Figures]] = {}
    for status, figures in seen:
        by_format.setdefault(status.table.format, []).append(figures)
    totals = {format_name: folded(figures) for format_name, figures in by_format.items()}
    for family, name, meaning in _SUMMED:
        metric = GaugeMetricFamily(name, meaning, labels=_SERVED)
        for service, format_name in served:
            metric.add_metric([service, format_name], _total(totals[format_name], family, service) or 0)
        yield metric
    oldest = GaugeMetricFamily(
        "lakewarden_oldest_pending_age_seconds",
        "Time since the oldest pending instant of all tables was requested. 0 if none is pending.",
        labels=_SERVED,
    )
    for service, format_name in served:
        first = _total(totals[format_name], of.FIRST_PENDING, service)
        oldest.add_metric([service, format_name], 0 if first is None else max(0.0, now.timestamp() - first))
    yield oldest


def _total(totals: Mapping[Key, float], family: Family, service: Service) -> float | None:
    return totals.get((family, (service.value,)))


def decisions(statuses: Iterable[TableStatus]) -> Iterator[Metric]:
    """Count the services of all tables by the last decision."""
    counts: Counter[tuple[Service, str, str]] = Counter()
    for status in statuses:
        for service in status.table.policies:
            decision = status.decisions.get(service)
            counts[service, status.table.format, _UNDECIDED if decision is None else type(decision).__name__] += 1
    metric = GaugeMetricFamily(
        "lakewarden_table_services",
        "Services with a policy, of all tables, by the last decision.",
        labels=(*_SERVED, "decision"),
    )
    served = sorted({(service, format_name) for service, format_name, _ in counts})
    for (service, format_name), name in product(served, (*DECISIONS, _UNDECIDED)):
        metric.add_metric([service, format_name, name], counts[service, format_name, name])
    yield metric


def active_runs(runs: Iterable[Run], services: Collection[Service], *, now: datetime) -> Iterator[Metric]:
    """Count the runs that have not ended, and measure how long the oldest one waits in the queue."""
    counts: Counter[tuple[Service, RunState]] = Counter()
    first: dict[Service, datetime] = {}
    for run in runs:
        counts[run.service, run.state] += 1
        if run.state is RunState.QUEUED:
            first[run.service] = min(run.created_at, first.get(run.service, run.created_at))
    names = sorted({*services, *(service for service, _ in counts)})
    active = GaugeMetricFamily("lakewarden_active_runs", "Runs that have not ended.", labels=("service", "run_state"))
    for service, state in product(names, _ACTIVE):
        active.add_metric([service, state.lower()], counts[service, state])
    yield active
    oldest = GaugeMetricFamily(
        "lakewarden_oldest_queued_run_age_seconds",
        "Time since the oldest run in the queue was requested. 0 if none is queued.",
        labels=("service",),
    )
    for service in names:
        age = (now - first[service]).total_seconds() if service in first else 0.0
        oldest.add_metric([service], max(0.0, age))
    yield oldest
