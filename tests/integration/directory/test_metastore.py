"""A started daemon lists the partitions of a directory in Hive's own metastore, and takes expired ones out."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.support.catalogs.metastore import RealMetastore
from tests.support.daemon.daemon_process import DaemonProcess
from tests.support.daemon.held_runs import held_at
from tests.support.directory.parquet_files import write_ids

pytestmark = pytest.mark.spark

ROWS = 50
NAME = "lake.clicks"


@dataclass
class Clicks:
    """A directory of Parquet files by hours, and the table that a metastore has of it."""

    folder: Path
    metastore: RealMetastore

    @property
    def configured(self) -> Mapping[str, Any]:
        database, _, table = NAME.partition(".")
        there = {"uri": self.metastore.uri, "database": database, "table": table}
        options = {"quiet_for": "2s", "quiet_intervals": 1, "metastore": there}
        return {"format": "directory", "path": str(self.folder), "options": options}

    @property
    def catalogs(self) -> Mapping[str, Any]:
        return {}

    def create(self) -> None:
        self.metastore.wait()
        self.metastore.create_database("lake")
        self.metastore.create_table(NAME, f"file:{self.folder}", keys={"dt": "string", "hour": "int"})

    def write(self, day: str, number: int, *, at: datetime | None = None) -> None:
        """Add a file with ids of its own."""
        write_ids(self.folder / f"dt={day}/hour=07/part-0-{number}", number * ROWS, ROWS, at=at)

    def listed(self) -> dict[str, Any]:
        """Return the entries of the metastore by their days."""
        return {values[0]: one for values, one in self.metastore.partitions_of(NAME).items()}

    def ids(self) -> list[int]:
        """Read as an engine does: the files below the places that the metastore lists."""
        found = list[int]()
        for one in self.listed().values():
            files = f"{one.sd.location.removeprefix('file:')}/part-*"
            found += [row[0] for row in duckdb.connect().execute(f"select id from read_parquet('{files}')").fetchall()]
        return sorted(found)

    def markers(self) -> set[str]:
        return {file.parent.parent.name.partition("=")[2] for file in self.folder.glob("*=*/*=*/_SUCCESS")}


@pytest.fixture
def clicks(tmp_path: Path) -> Iterator[Clicks]:
    home = tmp_path / "metastore"
    home.mkdir()
    metastore = RealMetastore(home)
    yield Clicks(tmp_path / "clicks", metastore)
    metastore.stop()


def _day(ago: int) -> str:
    return f"{datetime.now(UTC) - timedelta(days=ago):%Y-%m-%d}"


@pytest.mark.parametrize(
    "point",
    [
        "listed",
        *(pytest.param(point, marks=pytest.mark.faults) for point in ("planned", "executed", "permitted", "marked")),
        *(pytest.param(point, marks=pytest.mark.faults) for point in ("committed", "settled")),
    ],
)
def test_readers_by_the_metastore_find_each_row_once_and_never_an_expired_one(
    clicks: Clicks,
    daemon_of: Callable[..., DaemonProcess],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    point: str,
) -> None:
    """The JVM is killed while a run stands at a point. The next run does what is left, late data commits again, and an
    expired partition leaves the list with its folder. Hive's own metastore recounts no row twice.
    """
    long_ago = datetime.now(UTC) - timedelta(days=8)
    for number, ago in enumerate((1, 2, 9)):
        clicks.write(_day(ago), number, at=long_ago)
    clicks.create()
    services = {
        "partition_commit": {"options": {"policy": "metastore,success-file"}},
        "ttl": {"trigger": {"num_commits": 1}, "options": {"retain": "7d"}},
    }
    start = functools.partial(daemon_of, clicks, services, formats=["directory"])
    with held_at(point, "partition_commit", start, tmp_path, monkeypatch) as daemon:
        assert clicks.markers() <= clicks.listed().keys()
        assert len(clicks.listed()) - len(clicks.markers()) == (1 if point == "listed" else 0)
    kept = {_day(1), _day(2)}
    daemon.until(lambda: clicks.listed().keys() == clicks.markers() == kept)
    assert clicks.ids() == list(range(2 * ROWS))
    before = clicks.listed()[_day(1)].parameters["lakewarden.changed-at"]
    clicks.write(_day(1), 2)
    daemon.until(lambda: clicks.listed()[_day(1)].parameters["lakewarden.changed-at"] > before)
    assert clicks.ids() == list(range(3 * ROWS))
    assert not (clicks.folder / f"dt={_day(9)}/hour=07").exists()
    assert daemon.stop() == 0


@pytest.mark.faults
@pytest.mark.parametrize("point", ["proposed", "dropped", "exchanged", "published", "deleting"])
def test_a_killed_ttl_is_ended_and_its_partition_is_in_no_list(
    clicks: Clicks,
    daemon_of: Callable[..., DaemonProcess],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    point: str,
) -> None:
    """A reader by the metastore is never led to a folder that is gone."""
    for number, ago in enumerate((1, 9)):
        clicks.write(_day(ago), number, at=datetime.now(UTC) - timedelta(days=8))
    clicks.create()
    for ago in (1, 9):
        clicks.metastore.add_partition(NAME, (_day(ago), "7"), f"{clicks.folder}/dt={_day(ago)}/hour=07")
    services = {"ttl": {"trigger": {"num_commits": 1}, "options": {"retain": "7d"}}}
    start = functools.partial(daemon_of, clicks, services, formats=["directory"])
    with held_at(point, "ttl", start, tmp_path, monkeypatch) as daemon:
        home = clicks.folder / f"dt={_day(9)}/hour=07"
        assert (_day(9) in clicks.listed()) == (point == "proposed")
        assert home.exists() == (point in ("proposed", "dropped"))
    daemon.until(lambda: clicks.listed().keys() == {_day(1)} and not home.exists())
    assert clicks.ids() == list(range(ROWS))
    assert daemon.stop() == 0
