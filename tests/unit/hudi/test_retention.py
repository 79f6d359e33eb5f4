"""What a scrape says of what keeps a table's old commits from going."""

from __future__ import annotations

from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector

from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.storage import LocalStorage
from lakewarden.service.control.plane import TableStatus
from lakewarden.service.reporting import retention
from tests.support.hudi_look import made


def test_the_oldest_savepoint_and_each_reader_are_measured(tmp_path: Path) -> None:
    """How many commits each of them keeps, and since when: an alert comes before the disk is full."""
    table = made(tmp_path)
    times = []
    for _ in range(4):
        times.append(table.begin_write())
        table.commit_write(times[-1])
    table.savepoint(times[1])
    readers = [{"name": "export", "longest_lag": "1h"}, {"name": "lost", "position": str(tmp_path / "nowhere")}]
    options = HudiTableOptions.model_validate({"writers": "none", "readers": readers})
    registered = Table(id=TableId("trips"), format="hudi", location=str(table.folder), options=options)
    view = HUDI.observe(registered, LocalStorage(), None, now=table.clock.now()).view
    status = TableStatus(table=registered, view=view)

    class Scrape(Collector):
        def collect(self):  # type: ignore[no-untyped-def]
            yield from retention.savepoints([status])
            yield from retention.readers([status])

    registry = CollectorRegistry()
    registry.register(Scrape())

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"lakewarden_table_{name}", {"table": "trips", **labels})

    [savepoint] = [one for one in view.timeline.instants if one.action == "savepoint"]
    assert value("commits_held_by_savepoint") == 2
    assert value("oldest_savepoint_timestamp_seconds") == savepoint.requested_at.timestamp()
    assert value("reader_commits_behind", reader="export") == 4
    assert value("reader_unread_since_timestamp_seconds", reader="export") is not None
    assert value("reader_commits_behind", reader="lost") == -1
    assert value("reader_unread_since_timestamp_seconds", reader="lost") is None
