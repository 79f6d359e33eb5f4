"""What a scrape says of an Iceberg table's backlog."""

from __future__ import annotations

from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector

from lakewarden.planners.model.instant import Service
from lakewarden.service.control.plane import TableStatus
from lakewarden.service.reporting.metrics import _pending, _piles
from tests.support.iceberg_look import look, registered
from tests.support.iceberg_table import IcebergTable


def test_what_a_rewrite_has_to_do_is_measured_for_each_service(tmp_path: Path) -> None:
    """Files and bytes by service: a dashboard shows the backlog grow before anybody is asked for it."""
    table = IcebergTable(tmp_path / "trips")
    for _ in range(6):
        table.append(table.file(size=1000))
    services = (Service.COMPACTION, Service.CLEAN)
    status = TableStatus(table=registered(table.folder, *services), view=look(table, *services).view)

    class Scrape(Collector):
        def collect(self):  # type: ignore[no-untyped-def]
            yield from _pending([status])
            yield from _piles([status])

    registry = CollectorRegistry()
    registry.register(Scrape())

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, {"table": "trips", **labels})

    assert value("lakewarden_table_backlog_files", service="compaction") == 6
    assert value("lakewarden_table_backlog_bytes", service="compaction") == 6000
    assert value("lakewarden_table_commits_since", service="compaction") == 6
    assert value("lakewarden_table_backlog_files", service="clean") is None
    assert value("lakewarden_table_small_files") == 6
