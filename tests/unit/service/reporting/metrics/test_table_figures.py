"""What a scrape says of a table's backlog, and of the readers that wait for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.planners.storage import LocalStorage
from lakewarden.service.reporting.metrics.table_figures import seen_in
from lakewarden.service.reporting.metrics.table_limit import measured
from tests.support.hudi.hudi_look import made
from tests.support.iceberg.iceberg_look import look, registered
from tests.support.iceberg.iceberg_table import IcebergTable
from tests.support.paimon.paimon_look import view_of as paimon_view
from tests.support.paimon.paimon_table import PaimonTable


def _values(view: TableView, known: Table) -> Callable[..., float | None]:
    """Return what tells the value of a series of the table `trips`."""
    samples = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for metric in measured({known.id: [seen_in(view, known)]}, own={known.id})
        for sample in metric.samples
    }
    return lambda name, **labels: samples.get(
        (f"lakewarden_table_{name}", *sorted({"table": "trips", **labels}.items()))
    )


def test_what_a_rewrite_has_to_do_is_measured_for_each_service(tmp_path: Path) -> None:
    """Bytes and commits by service: a dashboard shows the backlog grow before anybody is asked for it."""
    table = IcebergTable(tmp_path / "trips")
    for _ in range(6):
        table.append(table.file(size=1000))
    services = (Service.COMPACTION, Service.CLEAN)
    known = registered(table.folder, *services)
    value = _values(look(table, *services).view, known)

    assert value("backlog_bytes", service="compaction") == 6000
    assert value("commits_since", service="compaction") == 6
    assert value("backlog_bytes", service="clean") is None
    assert value("small_files") == 6


def test_the_time_since_which_readers_wait_is_measured(tmp_path: Path) -> None:
    """For the service that ends the wait. A table with readers that see everything has no such series."""
    table = PaimonTable(tmp_path / "paimon", options={"bucket": "1", "write-only": "true", "merge-engine": "first-row"})
    known = Table(id=TableId("trips"), format="paimon", location=str(table.folder))

    def found() -> float | None:
        return _values(paimon_view(table), known)("unseen_since_timestamp_seconds", service="compaction")

    assert found() is None
    table.append()
    assert found() == table.clock.now().timestamp()


def test_the_oldest_savepoint_and_each_reader_are_measured(tmp_path: Path) -> None:
    """It says how many commits each of them keeps, and since when. So an alert comes before the disk is full."""
    table = made(tmp_path)
    times = []
    for _ in range(4):
        times.append(table.begin_write())
        table.commit_write(times[-1])
    table.savepoint(times[1])
    readers = [{"name": "export", "longest_lag": "1h"}, {"name": "lost", "position": str(tmp_path / "nowhere")}]
    options = HudiTableOptions.model_validate({"writers": "none", "readers": readers})
    known = Table(id=TableId("trips"), format="hudi", location=str(table.folder), options=options)
    view = HUDI.observe(known, LocalStorage(), None, now=table.clock.now()).view
    value = _values(view, known)

    [savepoint] = [one for one in view.timeline.instants if one.action == "savepoint"]
    assert value("oldest_savepoint_timestamp_seconds") == savepoint.requested_at.timestamp()
    assert value("reader_commits_behind", reader="export") == 4
    assert value("reader_unread_since_timestamp_seconds", reader="export") is not None
    assert value("reader_commits_behind", reader="lost") == -1
    assert value("reader_unread_since_timestamp_seconds", reader="lost") is None
