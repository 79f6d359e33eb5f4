"""What a scrape says of a table's backlog, and of the readers that wait for it."""

from __future__ import annotations

from pathlib import Path

from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table, TableId
from lakewarden.service.reporting.metrics.table_figures import seen_in
from lakewarden.service.reporting.metrics.table_limit import measured
from tests.support.iceberg.iceberg_look import look, registered
from tests.support.iceberg.iceberg_table import IcebergTable
from tests.support.paimon.paimon_look import view_of as paimon_view
from tests.support.paimon.paimon_table import PaimonTable


def test_what_a_rewrite_has_to_do_is_measured_for_each_service(tmp_path: Path) -> None:
    """Bytes and commits by service: a dashboard shows the backlog grow before anybody is asked for it."""
    table = IcebergTable(tmp_path / "trips")
    for _ in range(6):
        table.append(table.file(size=1000))
    services = (Service.COMPACTION, Service.CLEAN)
    known = registered(table.folder, *services)
    samples = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for metric in measured({known.id: [seen_in(look(table, *services).view, known)]}, own={known.id})
        for sample in metric.samples
    }

    def value(name: str, **labels: str) -> float | None:
        return samples.get((name, *sorted({"table": "trips", **labels}.items())))

    assert value("lakewarden_table_backlog_bytes", service="compaction") == 6000
    assert value("lakewarden_table_commits_since", service="compaction") == 6
    assert value("lakewarden_table_backlog_bytes", service="clean") is None
    assert value("lakewarden_table_small_files") == 6


def test_the_time_since_which_readers_wait_is_measured(tmp_path: Path) -> None:
    """For the service that ends the wait. A table with readers that see everything has no such series."""
    table = PaimonTable(tmp_path / "paimon", options={"bucket": "1", "write-only": "true", "merge-engine": "first-row"})
    name = "lakewarden_table_unseen_since_timestamp_seconds"
    known = Table(id=TableId("trips"), format="paimon", location=str(table.folder))

    def found() -> list[tuple[str, float]]:
        seen = seen_in(paimon_view(table), known)
        samples = (one for metric in measured({known.id: [seen]}, own={known.id}) for one in metric.samples)
        return [(one.labels["service"], one.value) for one in samples if one.name == name]

    assert found() == []
    table.append()
    assert found() == [("compaction", table.clock.now().timestamp())]
