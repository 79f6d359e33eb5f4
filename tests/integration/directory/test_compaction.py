"""A started daemon compacts beside a writer and a reader, and after kill -9 at every state of an exchange."""

from __future__ import annotations

import contextlib
import functools
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pytest

from lakewarden.cli import main
from tests.support.daemon.daemon_process import TABLE, DaemonProcess
from tests.support.daemon.held_runs import held_at
from tests.support.directory.directories import age
from tests.support.directory.parquet_files import write_ids

pytestmark = pytest.mark.spark

ROWS = 20
FILES = 8


@dataclass
class Clicks:
    """A directory of Parquet files without extensions, by hours. `written` counts files."""

    folder: Path
    written: int = 0

    @property
    def configured(self) -> Mapping[str, Any]:
        options = {"quiet_for": "1s", "quiet_intervals": 0, "restore_horizon": "1h"}
        return {"format": "directory", "path": str(self.folder), "options": options}

    @property
    def catalogs(self) -> Mapping[str, Any]:
        return {}

    def write(self, hour: int, *, at: datetime | None = None) -> None:
        """Add a file: it is in progress before it has its name, as Flink's."""
        file = self.folder / f"dt=2026-03-01/hour={hour:02d}/part-0-{self.written}"
        write_ids(file, self.written * ROWS, ROWS, at=at)
        self.written += 1

    def files(self, hour: int) -> set[str]:
        return {file.name for file in (self.folder / f"dt=2026-03-01/hour={hour:02d}").iterdir()}

    def is_compacted(self, hour: int) -> bool:
        return len({name for name in self.files(hour) if name.startswith("part-")}) == 1

    def told(self, hours: str = "*") -> tuple[int, int, int]:
        """Count rows, and different ones, by a reader that knows nothing of Lakewarden."""
        query = f"select count(*), count(distinct id), sum(id) from '{self.folder}/dt=2026-03-01/hour={hours}/part-*'"
        [found] = duckdb.connect().execute(query.replace("from '", "from read_parquet('") + ")").fetchall()
        return int(found[0]), int(found[1]), int(found[2])


@pytest.fixture
def clicks(tmp_path: Path) -> Clicks:
    table = Clicks(tmp_path / "clicks")
    for hour in range(3):
        for _ in range(FILES):
            table.write(hour, at=datetime.now(UTC) - timedelta(hours=9 - hour))
    return table


SERVICES = {"compaction": {"trigger": {"num_commits": 1}}}


@pytest.mark.core
def test_old_partitions_are_compacted_beside_a_writer_and_a_reader(
    clicks: Clicks, daemon_of: Callable[..., DaemonProcess]
) -> None:
    """The reader polls all the time: it finds all old rows once, or a listing that is out of date fails as a whole."""
    old, ended, wrong, looks = clicks.told(), threading.Event(), list[Any](), list[int]()
    reader_of_old = Clicks(clicks.folder)

    def read() -> None:
        while not ended.is_set():
            try:
                found = reader_of_old.told("0[0-2]")
            except duckdb.Error:
                continue
            looks.append(1)
            if found != old:
                wrong.append(found)

    def write() -> None:
        while not ended.wait(0.3):
            clicks.write(7)

    threads = [threading.Thread(target=one) for one in (read, write)]
    for thread in threads:
        thread.start()
    daemon = daemon_of(clicks, {**SERVICES, "partition_commit": {}}, formats=["directory"])
    daemon.start()
    try:
        daemon.until(lambda: all(clicks.is_compacted(hour) for hour in range(3)))
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert wrong == []
    assert len(looks) > 10
    assert clicks.told()[:2] == (clicks.written * ROWS, clicks.written * ROWS)
    assert len([name for name in clicks.files(7) if name.startswith("part-")]) == clicks.written - 3 * FILES
    # the files are there before the run has told its figures
    [run] = daemon.until(
        lambda: [one for one in daemon.runs("compaction") if one["figures"].get("partitions_compacted")]
    )
    assert run["figures"]["files_rewritten"] == 3 * FILES
    assert run["figures"]["files_added"] == 3
    assert daemon.stop() == 0
    assert not (clicks.folder / "_lakewarden").exists()


def test_a_new_user_sees_expired_partitions_and_orphans_go(
    tmp_path: Path, daemon_of: Callable[..., DaemonProcess], capsys: pytest.CaptureFixture[str]
) -> None:
    """By the command line, REST and metrics. What is left of a dead job blocks its partition no more."""
    table = Clicks(tmp_path / "clicks")
    for hour in range(2):
        for _ in range(FILES):
            table.write(hour, at=datetime.now(UTC) - timedelta(days=9))
    old = table.folder / "dt=2020-01-01/hour=00"
    old.mkdir(parents=True)
    (old / "part-0-0").write_bytes((table.folder / "dt=2026-03-01/hour=00/part-0-0").read_bytes())
    orphan = table.folder / "dt=2026-03-01/hour=00/.part-9-9.inprogress.77"
    orphan.touch()
    for path in (orphan, orphan.parent, old / "part-0-0", old):
        age(path, datetime.now(UTC) - timedelta(days=9))
    expected, now = table.told(), {"trigger": {"num_commits": 1}}
    time = {"timestamp_pattern": "$dt $hour:00:00"}
    services = {**SERVICES, "orphans": now, "ttl": {**now, "options": {"retain": "2000d", **time}}}
    daemon = daemon_of(table, services, formats=["directory"])
    daemon.start()
    daemon.until(lambda: not orphan.exists() and not old.exists())
    daemon.until(lambda: table.is_compacted(1))
    assert not table.is_compacted(0)  # the deletion of the orphan is a change of its folder, within restore_horizon
    assert table.told() == expected
    figures = {"orphans": "files_deleted", "ttl": "partitions_deleted", "compaction": "bytes_rewritten"}
    for service, figure in figures.items():
        daemon.until(lambda: any(one["figures"].get(figure) for one in daemon.runs(service)))  # noqa: B023
    configured = json.loads((tmp_path / "daemon" / "lakewarden.yaml").read_text())
    management, api = configured["management"]["port"], configured["api"]["port"]
    metrics = httpx.get(f"http://127.0.0.1:{management}/metrics", timeout=30, verify=False).text
    assert all(f'service="{service}"' in metrics for service in figures)
    assert main(["explain", TABLE, "--url", f"http://127.0.0.1:{api}"]) == 0
    told = capsys.readouterr().out
    assert all(service in told for service in ("compaction", "orphans", "ttl"))
    assert daemon.stop() == 0


def told_by_a_reader_that_lists_again(clicks: Clicks) -> tuple[int, int, int]:
    """Read while folders may be exchanged: a listing from before an exchange names files that are gone."""
    while True:
        with contextlib.suppress(duckdb.IOException):
            return clicks.told()


@pytest.mark.parametrize(
    "point",
    [
        "exchanged",
        *(
            pytest.param(point, marks=pytest.mark.faults)
            for point in ("executed", "proposed", "published", "deleting", "committed")
        ),
    ],
)
def test_a_run_killed_at_a_state_of_an_exchange_loses_no_row_and_is_ended_by_the_next(
    clicks: Clicks,
    daemon_of: Callable[..., DaemonProcess],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    point: str,
) -> None:
    """While the run stands there, and after its JVM and its worker are gone, a reader finds each row once."""
    expected = clicks.told()
    start = functools.partial(daemon_of, clicks, SERVICES, formats=["directory"])
    with held_at(point, "compaction", start, tmp_path, monkeypatch) as daemon:
        assert clicks.told() == expected
    assert told_by_a_reader_that_lists_again(clicks) == expected
    daemon.until(lambda: all(clicks.is_compacted(hour) for hour in range(3)))
    daemon.until(lambda: not (clicks.folder / "_lakewarden").exists())
    assert clicks.told() == expected
    assert daemon.stop() == 0
