"""A started daemon commits the partitions of a directory beside a writer, and after kill -9 at every step."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from lakewarden.planners.model.clock import SystemClock
from tests.support.daemon.daemon_process import DaemonProcess
from tests.support.daemon.held_runs import held_at
from tests.support.directory.flink_sink import FlinkSink
from tests.support.directory.parquet_files import write_ids

pytestmark = pytest.mark.spark

ROWS = 50


@dataclass
class Clicks:
    """A directory of Parquet files, by hours."""

    folder: Path
    written: int = 0

    @property
    def configured(self) -> Mapping[str, Any]:
        options = {"quiet_for": "2s", "quiet_intervals": 1}
        return {"format": "directory", "path": str(self.folder), "options": options}

    @property
    def catalogs(self) -> Mapping[str, Any]:
        return {}

    def write(self, hour: int, *, at: datetime | None = None) -> None:
        """Add a file without an extension, as Flink does."""
        self.written += 1
        write_ids(self.folder / f"dt=2026-03-01/hour={hour:02d}/part-0-{self.written}", 0, ROWS, at=at)

    def markers(self) -> dict[str, float]:
        return {file.parent.name: file.stat().st_mtime for file in self.folder.rglob("_SUCCESS")}

    def rows(self) -> int:
        """Count by a reader that knows nothing of Lakewarden."""
        [(count,)] = (
            duckdb.connect().execute(f"select count(*) from read_parquet('{self.folder}/**/part-*')").fetchall()
        )
        return int(count)


@pytest.fixture
def clicks(tmp_path: Path) -> Clicks:
    table = Clicks(tmp_path / "clicks")
    for hour in range(3):
        table.write(hour, at=datetime.now(UTC) - timedelta(hours=9 - hour))
    return table


def test_what_is_inactive_is_committed_and_late_data_again(
    clicks: Clicks, daemon_of: Callable[..., DaemonProcess]
) -> None:
    """Through a session worker, as all runs go. The rows stay as they are."""
    (clicks.folder / "dt=2026-03-01/hour=02/.part-9.inprogress.77").touch()
    daemon = daemon_of(clicks, {"partition_commit": {}}, formats=["directory"])
    daemon.start()
    daemon.until(lambda: clicks.markers().keys() == {"hour=00", "hour=01"})
    first = clicks.markers()["hour=00"]
    clicks.write(0)
    daemon.until(lambda: clicks.markers()["hour=00"] > first)
    assert "hour=02" not in clicks.markers()
    [run] = [one for one in daemon.runs("partition_commit") if one["figures"].get("partitions_committed") == 2]
    assert run["state"] == "SUCCEEDED"
    assert clicks.rows() == 4 * ROWS
    assert daemon.stop() == 0


@pytest.mark.parametrize(
    "point",
    [
        "permitted",
        *(
            pytest.param(point, marks=pytest.mark.faults)
            for point in ("planned", "executing", "executed", "committed", "settled")
        ),
    ],
)
def test_a_run_killed_at_a_step_leaves_each_partition_with_its_marker_or_without(
    clicks: Clicks,
    daemon_of: Callable[..., DaemonProcess],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    point: str,
) -> None:
    """And the next run does what is left."""
    start = functools.partial(daemon_of, clicks, {"partition_commit": {}}, formats=["directory"])
    with held_at(point, "partition_commit", start, tmp_path, monkeypatch) as daemon:
        markers = clicks.markers()
        assert len(markers) == (3 if point in ("committed", "settled") else 0)
    daemon.until(lambda: len(clicks.markers()) == 3)
    assert clicks.markers().items() >= markers.items()
    names = {file.name for file in clicks.folder.rglob("*") if file.is_file()}
    assert names == {"_SUCCESS", "part-0-1", "part-0-2", "part-0-3"}
    assert clicks.rows() == 3 * ROWS
    assert daemon.stop() == 0


def test_beside_a_writer_like_flinks_no_marker_is_too_early(
    tmp_path: Path, daemon_of: Callable[..., DaemonProcess]
) -> None:
    """The writer looks for markers whenever it opens a part: in a partition that it has not left there is none."""
    table = Clicks(tmp_path / "clicks")
    sink, early, ended = FlinkSink(table.folder, SystemClock()), list[str](), threading.Event()

    def write() -> None:
        for hour in range(6):
            for _ in range(5):
                sink.write(f"dt=2026-03-01/hour={hour:02d}")
                ended.wait(0.5)
                sink.checkpoint()
                ended.wait(0.2)
                sink.complete()
                early.extend(name for name in table.markers() if name == f"hour={hour:02d}")
        ended.set()

    writer = threading.Thread(target=write)
    writer.start()
    daemon = daemon_of(table, {"partition_commit": {}}, formats=["directory"])
    daemon.start()
    daemon.until(lambda: len(table.markers()) == 6)
    writer.join()
    assert early == []
    assert sink.rows == sum(1 for file in table.folder.rglob("part-*") for _ in file.open())
    assert daemon.stop() == 0
