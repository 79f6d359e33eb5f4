"""A started daemon compacts a directory on a real S3 server, with Hive's own metastore and without."""

from __future__ import annotations

import functools
import io
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyarrow import parquet as pq

from tests.support.catalogs.metastore import RealMetastore
from tests.support.daemon.daemon_process import DaemonProcess
from tests.support.daemon.held_runs import held_at
from tests.support.directory.parquet_files import write_ids
from tests.support.object_stores.s3_server import BUCKET, S3Server

pytestmark = pytest.mark.spark

NAME = "lake.clicks"
FILES, ROWS, HOURS = 6, 20, 2
GRACE = "3s"


@dataclass
class Clicks:
    """Parquet files on S3, by hours, with markers, and the table that a metastore has of them. They are read with
    pyarrow through a client of its own.
    """

    server: S3Server
    metastore: RealMetastore
    scratch: Path
    location: str = field(default_factory=lambda: f"s3://{BUCKET}/{uuid4().hex}")
    written: int = 0

    @property
    def configured(self) -> Mapping[str, Any]:
        there = {"uri": self.metastore.uri, "database": "lake", "table": "clicks"}
        options = {"quiet_for": "1s", "quiet_intervals": 0, "restore_horizon": "0s", "metastore": there}
        return {"format": "directory", "path": self.location, "options": options}

    @property
    def catalogs(self) -> Mapping[str, Any]:
        return {}

    @property
    def address(self) -> str:
        return self.location.replace("s3:", "s3a:")

    def create(self) -> None:
        self.files = self.server.files()
        for hour in range(HOURS):
            for _ in range(FILES):
                self.write(hour)
            self.files.pipe_file(f"{self.location}/{_partition(hour)}/_SUCCESS", b"")
        self.metastore.wait()
        self.metastore.create_database("lake")
        self.metastore.create_table(NAME, self.address, keys={"dt": "string", "hour": "int"})
        for hour in range(HOURS):
            self.metastore.add_partition(NAME, ("2026-03-01", str(hour)), f"{self.address}/{_partition(hour)}")

    def write(self, hour: int) -> None:
        local = self.scratch / f"part-0-{self.written}"
        write_ids(local, self.written * ROWS, ROWS)
        self.files.put_file(str(local), f"{self.location}/{_partition(hour)}/{local.name}")
        self.written += 1

    def names(self, hour: int) -> set[str]:
        return {name.rpartition("/")[2] for name in self.files.find(f"{self.location}/{_partition(hour)}")}

    def is_compacted(self) -> bool:
        return self.state() is None and all(len(self.names(hour) - {"_SUCCESS"}) == 1 for hour in range(HOURS))

    def state(self) -> str | None:
        try:
            told = self.files.cat_file(f"{self.location}/_lakewarden/act.json")
        except FileNotFoundError:
            return None
        return None if told.startswith(b"deleted") else str(json.loads(told)["progress"])

    def ids(self, places: list[str]) -> Counter[int]:
        """Read the folders; a listing that is out of date names a file that is gone, and fails."""
        found: Counter[int] = Counter()
        for place in places:
            for name in self.files.find(place.replace("s3a:", "s3:")):
                if name.rpartition("/")[2][0] not in "._":
                    found.update(pq.read_table(io.BytesIO(self.files.cat_file(name)))["id"].to_pylist())
        return found

    def by_path(self) -> Counter[int]:
        return self.ids([f"{self.location}/{_partition(hour)}" for hour in range(HOURS)])

    def by_metastore(self) -> Counter[int]:
        return self.ids([one.sd.location for one in self.metastore.partitions_of(NAME).values()])

    @property
    def all_once(self) -> Counter[int]:
        return Counter(range(self.written * ROWS))


def _partition(hour: int) -> str:
    return f"dt=2026-03-01/hour={hour:02d}"


@pytest.fixture
def clicks(s3_server: S3Server, tmp_path: Path) -> Iterator[Clicks]:
    s3_server.start()
    metastore = RealMetastore.on_s3(tmp_path / "metastore", s3_server)
    table = Clicks(s3_server, metastore, tmp_path / "scratch")
    table.create()
    yield table
    metastore.stop()


def services(publication: str) -> Mapping[str, Any]:
    options = {"publication": publication, "reader_grace": GRACE}
    return {"compaction": {"trigger": {"num_commits": 1}, "options": options}}


def storage(server: S3Server) -> list[Mapping[str, Any]]:
    return [server.store().model_dump(mode="json", exclude_defaults=True)]


def test_readers_by_the_metastore_who_poll_all_the_time_find_each_row_once(
    clicks: Clicks, daemon_of: Callable[..., DaemonProcess]
) -> None:
    """While Hive's metastore leads them to the new files and back. No query fails: each ends within the grace."""
    expected, wrong, places, ended = clicks.all_once, list[Any](), set[str](), threading.Event()

    def read() -> None:
        while not ended.is_set():
            places.update(one.sd.location for one in clicks.metastore.partitions_of(NAME).values())
            try:
                found = clicks.by_metastore()
            except FileNotFoundError as error:
                wrong.append(error)
            else:
                if found != expected:
                    wrong.append(found - expected)

    reader = threading.Thread(target=read)
    reader.start()
    daemon = daemon_of(clicks, services("metastore"), storage=storage(clicks.server), formats=["directory"])
    daemon.start()
    try:
        daemon.until(clicks.is_compacted)
    finally:
        ended.set()
        reader.join()
    assert wrong == []
    assert {place for place in places if "_lakewarden" in place}
    assert {one.sd.location for one in clicks.metastore.partitions_of(NAME).values()} == {
        f"{clicks.address}/{_partition(hour)}" for hour in range(HOURS)
    }
    assert clicks.by_path() == clicks.by_metastore() == expected
    assert all("_SUCCESS" in clicks.names(hour) for hour in range(HOURS))
    assert daemon.stop() == 0


@pytest.mark.parametrize(
    ("publication", "point"),
    [
        ("metastore", "pointed"),
        ("with_duplicates", "copied"),
        *(
            pytest.param(publication, point, marks=pytest.mark.faults)
            for publication, points in (
                ("metastore", ("executed", "proposed", "copied", "published", "deleting", "committed")),
                ("with_duplicates", ("executed", "proposed", "published", "deleting", "committed")),
            )
            for point in points
        ),
    ],
)
def test_a_run_on_s3_killed_at_a_state_of_its_journal_is_taken_forward(
    clicks: Clicks,
    daemon_of: Callable[..., DaemonProcess],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    publication: str,
    point: str,
) -> None:
    """While the run stands there, and after its JVM is gone, no row is missing. By the metastore each row is there
    once. In the window of duplicates a partition with rows that are there twice has no marker.
    """
    expected = clicks.all_once
    start = functools.partial(
        daemon_of, clicks, services(publication), storage=storage(clicks.server), formats=["directory"]
    )
    with held_at(point, "compaction", start, tmp_path, monkeypatch) as daemon:
        assert clicks.by_path().keys() == expected.keys()
        if publication == "metastore":
            assert clicks.by_metastore() == expected
        for hour in range(HOURS):
            twice = max(clicks.ids([f"{clicks.location}/{_partition(hour)}"]).values()) > 1
            assert not (twice and "_SUCCESS" in clicks.names(hour))
    daemon.until(clicks.is_compacted)
    assert clicks.by_path() == clicks.by_metastore() == expected
    assert all("_SUCCESS" in clicks.names(hour) for hour in range(HOURS))
    assert {name.rpartition("/")[2] for name in clicks.files.find(f"{clicks.location}/_lakewarden")} == {"act.json"}
    assert daemon.stop() == 0
