"""A Flink job as a process: it is started, stopped with a savepoint, and restored."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path

from lakewarden.demo.daemon import Child
from lakewarden.executors.worker import bundles
from lakewarden.executors.worker.java import java_home

ROWS_PER_SECOND = 200

_ENVIRONMENT = Path(__file__).parents[2] / ".dev" / "flink-venv"
_STOPPED = re.compile(r"^stopped with savepoint (\S+)$", re.MULTILINE)  # what in_flink.py prints
_COMPLAINT = re.compile(r"^Caused by: (.+)$", re.MULTILINE)
_GRACE = timedelta(seconds=5)


class UnfinishedError(Exception):
    """Flink, or the daemon beside it, did not reach the expected state."""


class FlinkJob:
    """A job by its script and its own arguments. Its output and its savepoints go to files in `folder`."""

    def __init__(
        self, name: str, script: Path, arguments: Sequence[str], folder: Path, *, jar: Path, jars: Sequence[Path] = ()
    ) -> None:
        """`jar` is the jar of the sink. `jars` must be on the JVM's own class path, besides Hadoop."""
        self._name = name
        self._script = script
        self._arguments = (*arguments, "--jar", str(jar))
        self._folder = folder
        self._jars = jars

    def begun(self, run: str, savepoint: str | None, *, rows: int) -> RunningJob:
        """Start it, from its beginning or from a savepoint. It ends after `rows` rows."""
        stop = self._folder / f"{self._name}-{run}.stop"
        command = [str(_ENVIRONMENT / "bin" / "python"), str(self._script), *self._arguments]
        command += ["--rows", str(rows), "--rows-per-second", str(ROWS_PER_SECOND)]
        command += ["--stop", str(stop), "--savepoints", (self._folder / "savepoints").as_uri()]
        command += [] if savepoint is None else ["--savepoint", savepoint]
        log = self._folder / f"{self._name}-{run}.log"
        return RunningJob(Child("flink", command, log=log, variables=self._variables()), stop)

    def _variables(self) -> Mapping[str, str]:
        """Return the variables that PyFlink needs. Spark brings Hadoop."""
        spark = bundles.spark_jars()
        hadoop = (jar for pattern in ("hadoop-client-*.jar", "commons-logging-*.jar") for jar in spark.glob(pattern))
        return {"JAVA_HOME": str(java_home()), "HADOOP_CLASSPATH": os.pathsep.join(map(str, [*self._jars, *hadoop]))}


class RunningJob:
    """A job that was started."""

    def __init__(self, process: Child, stop: Path) -> None:
        self._process = process
        self._stop = stop

    def until(self, enough: Callable[[], bool], *, within: float) -> None:
        """Wait until a condition is true, or until the job has ended. `within` is in seconds. Raises
        UnfinishedError.
        """
        deadline = time.monotonic() + within
        while not (enough() or self._process.exit_code is not None):
            if time.monotonic() > deadline:
                raise UnfinishedError(f"Flink is not there after {within:.0f} s: {self._process.last_words()}")
            time.sleep(0.2)

    def stopped(self, *, within: float) -> str:
        """Stop it, and return its savepoint. Raises UnfinishedError."""
        self._stop.touch()
        self._ended(within)
        savepoint = _STOPPED.search(self._process.log.read_text(errors="replace"))
        if savepoint is None:
            raise UnfinishedError(f"Flink was not stopped with a savepoint: {self._why()}")
        return savepoint[1]

    def failure(self, *, within: float) -> str | None:
        """Wait for its last row. Returns why it failed, None if it did not. Raises UnfinishedError."""
        self._ended(within)
        return None if self._process.exit_code == 0 else self._why()

    def end(self) -> None:
        """End it, if it still runs."""
        self._process.end(grace=_GRACE)

    def _ended(self, within: float) -> None:
        try:
            self.until(lambda: False, within=within)
        finally:
            self.end()

    def _why(self) -> str:
        """Return the cause that Java names last. It is the first of all causes."""
        causes = _COMPLAINT.findall(self._process.log.read_text(errors="replace"))
        return causes[-1] if causes else self._process.last_words()
