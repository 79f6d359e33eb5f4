"""What keeps a table's old commits from going, for Prometheus: savepoints, and readers that have not read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric

from lakewarden.planners.model.printable import printable
from lakewarden.service.control.plane import TableStatus


def savepoints(statuses: Iterable[TableStatus]) -> Iterator[Metric]:
    """Measure how far the oldest savepoint holds the timeline, where there is one."""
    since = GaugeMetricFamily(
        "lakewarden_table_oldest_savepoint_timestamp_seconds",
        "When the commit of the oldest savepoint was requested: what follows it cannot be archived.",
        labels=["table"],
    )
    commits = GaugeMetricFamily(
        "lakewarden_table_commits_held_by_savepoint",
        "Commits that the oldest savepoint holds on the timeline.",
        labels=["table"],
    )
    for status in statuses:
        held = None if status.view is None else status.view.timeline.held_by_savepoint()
        if held:
            since.add_metric([printable(status.table.id)], held[0].requested_at.timestamp())
            commits.add_metric([printable(status.table.id)], len(held) - 1)
    yield since
    yield commits


def readers(statuses: Iterable[TableStatus]) -> Iterator[Metric]:
    """Measure how far the declared incremental readers are behind."""
    behind = GaugeMetricFamily(
        "lakewarden_table_reader_commits_behind",
        "Commits that a declared incremental reader has not read, or may not have; -1 where nobody knows.",
        labels=["table", "reader"],
    )
    since = GaugeMetricFamily(
        "lakewarden_table_reader_unread_since_timestamp_seconds",
        "When the first of these commits was completed.",
        labels=["table", "reader"],
    )
    for status in statuses:
        for reader in () if status.view is None else status.view.readers:
            labels = [printable(status.table.id), printable(reader.name)]
            behind.add_metric(labels, -1 if reader.unreadable is not None else reader.behind)
            if reader.unread_since is not None:
                since.add_metric(labels, reader.unread_since.timestamp())
    yield behind
    yield since
