"""What a scrape says of the reasons why a table's old commits stay."""

from __future__ import annotations

from pathlib import Path

from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.storage import LocalStorage
from lakewarden.service.reporting.metrics.table_figures import seen_in
from lakewarden.service.reporting.metrics.table_limit import measured
from tests.support.hudi.hudi_look import made


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
    registered = Table(id=TableId("trips"), format="hudi", location=str(table.folder), options=options)
    view = HUDI.observe(registered, LocalStorage(), None, now=table.clock.now()).view
    samples = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for metric in measured({registered.id: [seen_in(view, registered)]}, own={registered.id})
        for sample in metric.samples
    }

    def value(name: str, **labels: str) -> float | None:
        return samples.get((f"lakewarden_table_{name}", *sorted({"table": "trips", **labels}.items())))

    [savepoint] = [one for one in view.timeline.instants if one.action == "savepoint"]
    assert value("oldest_savepoint_timestamp_seconds") == savepoint.requested_at.timestamp()
    assert value("reader_commits_behind", reader="export") == 4
    assert value("reader_unread_since_timestamp_seconds", reader="export") is not None
    assert value("reader_commits_behind", reader="lost") == -1
    assert value("reader_unread_since_timestamp_seconds", reader="lost") is None
