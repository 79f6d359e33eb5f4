"""A Flink job as a process: it is begun, stopped with a savepoint, and restored."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from lakewarden.demo.process import Child
from lakewarden.executors.worker import bundles
from lakewarden.executors.worker.java import java_home
from lakewarden.executors.worker.lines import Bundle
from live.flink.lake import Lake
from live.sqlite_driver import SQLITE

ROWS, ROWS_PER_SECOND = 4000, 200

_ICEBERG = Bundle(
    group="org.apache.iceberg",
    artifact="iceberg-flink-runtime-1.20",
    version="1.11.0",
    sha256="33f7c29e2d53ef2c6e2942c1c324d817a03e32cc080f8a8b3056a3d0846e3691",
    size=39_118_327,
)
_ENVIRONMENT = Path(__file__).parents[2] / ".dev" / "flink-venv"
_STOPPED = re.compile(r"^stopped with savepoint (\S+)$", re.MULTILINE)  # what job.py prints
_COMPLAINT = re.compile(r"^Caused by: (.+)$", re.MULTILINE)
_GRACE = timedelta(seconds=5)


class UnfinishedError(Exception):
    """Flink did not come to where it should have."""


class FlinkWriter:
    """The job that fills one table of a lake. What it prints goes to a file in `folder`."""

    def __init__(self, table: str, lake: Lake, folder: Path) -> None:
        self._table = table
        self._lake = lake
        self._folder = folder

    def until_stopped(self, enough: Callable[[], bool], *, within: float) -> str:
        """Run until there is enough, stop, and return the savepoint. `within` is in seconds; raises UnfinishedError."""
        job, stop = self._begun("first", None)
        try:
            _wait(lambda: enough() or job.exit_code is not None, within, job)
            stop.touch()
            _wait(lambda: job.exit_code is not None, within, job)
        finally:
            job.end(grace=_GRACE)
        savepoint = _STOPPED.search(job.log.read_text(errors="replace"))
        if savepoint is None:
            raise UnfinishedError(f"Flink was not stopped with a savepoint: {_why(job)}")
        return savepoint[1]

    def restored(self, savepoint: str, *, within: float) -> str | None:
        """Go on from a savepoint until all rows are written; returns why that failed, None if it did not."""
        job, _ = self._begun("restored", savepoint)
        try:
            _wait(lambda: job.exit_code is not None, within, job)
        finally:
            job.end(grace=_GRACE)
        return None if job.exit_code == 0 else _why(job)

    def _begun(self, name: str, savepoint: str | None) -> tuple[Child, Path]:
        stop = self._folder / f"{self._table}-{name}.stop"
        script = Path(__file__).with_name("job.py")
        command = [str(_ENVIRONMENT / "bin" / "python"), str(script), "--table", self._lake.identifier(self._table)]
        command += ["--uri", self._lake.uri, "--warehouse", str(self._lake.warehouse)]
        command += [
            "--rows",
            str(ROWS),
            "--rows-per-second",
            str(ROWS_PER_SECOND),
            "--jar",
            str(bundles.bring(_ICEBERG)),
        ]
        command += ["--stop", str(stop), "--savepoints", (self._folder / "savepoints").as_uri()]
        command += [] if savepoint is None else ["--savepoint", savepoint]
        variables = {"JAVA_HOME": str(java_home()), "HADOOP_CLASSPATH": _class_path()}
        return Child("flink", command, log=self._folder / f"{self._table}-{name}.log", variables=variables), stop


def _class_path() -> str:
    """Return what has to be on the JVM's own class path: Hadoop, which Spark brings, and the driver of the catalog,
    which Java's list of drivers does not find in a job's jars.
    """
    spark = bundles.spark_jars()
    hadoop = (jar for pattern in ("hadoop-client-*.jar", "commons-logging-*.jar") for jar in spark.glob(pattern))
    return os.pathsep.join(map(str, [bundles.bring(SQLITE), *hadoop]))


def _wait(until: Callable[[], bool], within: float, job: Child) -> None:
    deadline = time.monotonic() + within
    while not until():
        if time.monotonic() > deadline:
            raise UnfinishedError(f"Flink is not there after {within:.0f} s: {job.last_words()}")
        time.sleep(0.2)


def _why(job: Child) -> str:
    """Return the cause that Java names last: the first of all."""
    causes = _COMPLAINT.findall(job.log.read_text(errors="replace"))
    return causes[-1] if causes else job.last_words()
