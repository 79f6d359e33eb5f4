"""The Flink job that fills one table of an Iceberg catalog."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lakewarden.executors.on_spark import Bundle
from lakewarden.executors.worker import bundles
from live.flink.iceberg.lake import Lake
from live.flink.process import FlinkJob
from live.sqlite_driver import SQLITE

ROWS = 4000

_ICEBERG = Bundle(
    group="org.apache.iceberg",
    artifact="iceberg-flink-runtime-1.20",
    version="1.11.0",
    sha256="33f7c29e2d53ef2c6e2942c1c324d817a03e32cc080f8a8b3056a3d0846e3691",
    size=39_118_327,
)


class FlinkWriter:
    """The job of one table. The catalog's driver is on the JVM's own class path: Java's list of drivers does not find
    it in a job's jars.
    """

    def __init__(self, table: str, lake: Lake, folder: Path) -> None:
        told = ("--table", lake.identifier(table), "--uri", lake.uri, "--warehouse", str(lake.warehouse))
        script, driver = Path(__file__).with_name("job.py"), bundles.bring(SQLITE)
        self._job = FlinkJob(table, script, told, folder, jar=bundles.bring(_ICEBERG), jars=[driver])

    def until_stopped(self, enough: Callable[[], bool], *, within: float) -> str:
        """Run until there are enough commits, stop, and return the savepoint. `within` is in seconds. Raises
        UnfinishedError.
        """
        job = self._job.begun("first", None, rows=ROWS)
        try:
            job.until(enough, within=within)
            return job.stopped(within=within)
        finally:
            job.end()

    def restored(self, savepoint: str, *, within: float) -> str | None:
        """Continue from a savepoint until all rows are written. Returns why that failed, None if it did not."""
        return self._job.begun("restored", savepoint, rows=ROWS).failure(within=within)
