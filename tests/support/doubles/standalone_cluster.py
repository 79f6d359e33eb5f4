"""A standalone cluster of Spark on this machine: a master and workers as processes of the installed PySpark."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
import pyspark

from lakewarden.demo.daemon import free_port
from lakewarden.executors.worker import java

_UP_SECONDS = 60.0
_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


class StandaloneCluster:
    """A master and its workers, each with one core. `end` leaves no process."""

    def __init__(self, folder: Path, *, workers: int = 2, memory: str = "768m") -> None:
        """Start the processes. Their logs and work are in `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._memory = memory
        self._port, self._ui = free_port(), free_port()
        self.master: subprocess.Popen[bytes]
        self.workers: list[subprocess.Popen[bytes]] = []
        self.start_master()
        self.workers += [self._worker(number) for number in range(workers)]

    @property
    def url(self) -> str:
        """The address of the master, for drivers."""
        return f"spark://127.0.0.1:{self._port}"

    @property
    def web_ui(self) -> str:
        """The address of the page of the master."""
        return f"http://127.0.0.1:{self._ui}"

    def profile(self, **conf: str) -> Mapping[str, Any]:
        """Return the settings of a `spark` profile on this cluster."""
        of_executors = {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.extraJavaOptions": java.LIGHT,
            "spark.executor.extraJavaOptions": java.LIGHT,
            "spark.executor.memory": self._memory,
            "spark.executor.cores": "1",
            "spark.sql.shuffle.partitions": "2",
        }
        return {"master": self.url, "master_ui": self.web_ui, "conf": {**of_executors, **conf}}

    def start_master(self) -> None:
        """Start the master, again if it was killed, and return when it answers. It knows nothing of its former life."""
        where = ["--host", "127.0.0.1", "--port", str(self._port), "--webui-port", str(self._ui)]
        self.master = self._start("master", "org.apache.spark.deploy.master.Master", where)
        deadline = time.monotonic() + _UP_SECONDS
        while self.status() is None:
            if time.monotonic() > deadline or self.master.poll() is not None:
                raise RuntimeError(f"no master after {_UP_SECONDS:.0f} s: {self._folder / 'master.log'}")
            time.sleep(0.1)

    def replace_worker(self, number: int) -> None:
        """Start a worker in the place of one that was killed."""
        self.workers[number].kill()
        self.workers[number].wait()
        self.workers[number] = self._worker(number)

    def status(self) -> Mapping[str, Any] | None:
        """Return what the master tells, or None if it does not answer."""
        try:
            with urllib.request.urlopen(f"{self.web_ui}/json/", timeout=5) as answer:
                found: Mapping[str, Any] = json.load(answer)
                return found
        except (OSError, ValueError):
            return None

    def executors(self) -> list[psutil.Process]:
        """Return the executors that run now, of all applications, also those that have lost their worker."""
        found = []
        for process in psutil.process_iter(["cmdline"]):
            with contextlib.suppress(psutil.Error):
                if _EXECUTOR in (process.info["cmdline"] or []) and process.cwd().startswith(f"{self._folder}/"):
                    found.append(process)
        return found

    def end(self) -> None:
        """Kill everything."""
        for process in (*self.workers, self.master):
            process.kill()
            process.wait()
        for executor in self.executors():
            with contextlib.suppress(psutil.NoSuchProcess):
                executor.kill()

    def _worker(self, number: int) -> subprocess.Popen[bytes]:
        what = ["--cores", "1", "--memory", self._memory, "--host", "127.0.0.1", "--webui-port", str(free_port())]
        work = ["--work-dir", str(self._folder / f"worker-{number}")]
        return self._start(f"worker-{number}", "org.apache.spark.deploy.worker.Worker", [*what, *work, self.url])

    def _start(self, name: str, of: str, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
        home = Path(pyspark.__file__).parent
        variables = {
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(self._folder / f"{name}.scratch"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": java.LIGHT,
            "JAVA_HOME": str(java.java_home()),
        }
        with (self._folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [str(home / "bin" / "spark-class"), of, *arguments],
                cwd=self._folder,
                env={**os.environ, **variables},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
