"""Spark writes to a table of Hive's metastore while a started daemon compacts its partitions on a real S3 server."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakewarden.executors.worker import bundles
from lakewarden.executors.worker.java import java_home
from tests.integration.directory.test_object_compaction import ROWS, Clicks, services, storage
from tests.support.catalogs.metastore import RealMetastore
from tests.support.daemon.daemon_process import DaemonProcess
from tests.support.daemon.held_runs import held_at
from tests.support.object_stores.s3_server import ACCESS_KEY, SECRET_KEY, S3Server
from tests.support.waiting import HANGS

pytestmark = [pytest.mark.spark, pytest.mark.faults]

DAY = "dt=2026-03-01"


class SparkClicks(Clicks):
    """All files are of Spark's own writer, which asks the metastore where a partition is."""

    def create(self) -> None:
        self.files = self.server.files()
        self.metastore.wait()
        self.scratch.mkdir()
        self.sql(
            f"create database lake location 'file:{self.scratch}/lake'",
            "create external table lake.clicks (id bigint) partitioned by (dt string, hour int)"
            f" stored as parquet location '{self.address}'",
            *(self.insert(hour) for hour in (0, 1) for _ in range(6)),
        )

    def insert(self, hour: int, how: str = "into") -> str:
        first, self.written = self.written * ROWS, self.written + 1
        rows = f"select id + {first} from range({ROWS})"
        return f"insert {how} lake.clicks partition (dt = '2026-03-01', hour = {hour}) {rows}"

    def sql(self, *statements: str) -> list[str]:
        """Return the rows of the last statement, from a Spark that ends with it."""
        settings = {
            "spark.sql.warehouse.dir": str(self.scratch),
            "spark.jars": ",".join(map(str, bundles.fetch((), stores=["s3"]))),
            "spark.hadoop.hive.metastore.uris": self.metastore.uri,
            "spark.hadoop.fs.s3a.endpoint": self.server.endpoint,
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.access.key": ACCESS_KEY,
            "spark.hadoop.fs.s3a.secret.key": SECRET_KEY,
        }
        told = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
        program = str(Path(sys.executable).with_name("spark-sql"))
        command = [program, "--master", "local[1]", *told, "-e", ";".join(statements)]
        environment = {**os.environ, "JAVA_HOME": str(java_home())}
        ended = subprocess.run(
            command, cwd=self.scratch, capture_output=True, text=True, timeout=HANGS, check=False, env=environment
        )
        assert ended.returncode == 0, ended.stderr[-3000:]
        return ended.stdout.split()

    def by_path(self) -> Counter[int]:
        return self.ids([f"{self.location}/{DAY}"])

    def hour_led_away(self) -> int:
        [hour] = [
            int(hour)
            for (_, hour), one in self.metastore.partitions_of("lake.clicks").items()
            if "/_lakewarden/" in one.sd.location
        ]
        return hour

    def is_over(self) -> bool:
        return self.state() is None and len(self.files.find(f"{self.location}/{DAY}")) < 6


@pytest.fixture
def clicks(s3_server: S3Server, tmp_path: Path) -> Iterator[SparkClicks]:
    s3_server.start()
    metastore = RealMetastore.on_s3(tmp_path / "metastore", s3_server)
    yield SparkClicks(s3_server, metastore, tmp_path / "scratch")
    metastore.stop()


@pytest.mark.parametrize("how", ["into", "overwrite"])
def test_rows_that_spark_writes_where_the_metastore_leads_are_there_once(
    clicks: SparkClicks,
    daemon_of: Callable[..., DaemonProcess],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
) -> None:
    """INSERT INTO adds a file to the folder of the act. INSERT OVERWRITE empties that folder and the partition's own.
    Its rows alone are in the partition then.
    """
    clicks.create()
    start = functools.partial(
        daemon_of, clicks, services("metastore"), storage=storage(clicks.server), formats=["directory"]
    )
    with held_at("pointed", "compaction", start, tmp_path, monkeypatch) as daemon:
        expected, hour = clicks.all_once, clicks.hour_led_away()
        if how == "overwrite":
            expected -= Counter(range(hour * 6 * ROWS, (hour + 1) * 6 * ROWS))
        expected += Counter(range(clicks.written * ROWS, (clicks.written + 1) * ROWS))
        clicks.sql(clicks.insert(hour, how))
        assert clicks.by_metastore() == expected
    daemon.until(clicks.is_over)
    assert clicks.by_path() == clicks.by_metastore() == expected
    assert Counter(map(int, clicks.sql("select id from lake.clicks"))) == expected
    assert daemon.stop() == 0
