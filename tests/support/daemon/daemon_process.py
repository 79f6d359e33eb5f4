"""The real daemon as a child process, as a user starts it: `lakewarden serve --config FILE`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import httpx
import psutil
import pytest

from lakewarden.demo.daemon import free_port
from lakewarden.executors.worker import java
from tests.support import doubles
from tests.support.doubles import fault_points
from tests.support.waiting import HANGS

TABLE = "sales.orders"


class Configured(Protocol):
    """A table of any format."""

    @property
    def configured(self) -> Mapping[str, Any]:
        """What its entry in the configuration says of the table itself."""
        ...

    @property
    def catalogs(self) -> Mapping[str, Any]:
        """The catalogs that know it."""
        ...


class DaemonProcess:
    """Starts, kills and asks one daemon, again and again on the same data folder."""

    def __init__(
        self,
        folder: Path,
        table: Configured,
        services: Mapping[str, Any],
        *,
        storage: Sequence[Mapping[str, Any]] = (),
        others: Sequence[Mapping[str, Any]] = (),
        **spark: Any,
    ) -> None:
        self.folder = folder
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.log = folder / "daemon.log"
        folder.mkdir(exist_ok=True)
        conf = {"spark.driver.extraJavaOptions": java.LIGHT}
        (folder / "lakewarden.yaml").write_text(
            json.dumps(
                {
                    "api": {"port": self._port},
                    "management": {"port": free_port()},
                    "daemon": {"data_dir": "data", "drain": "20s"},
                    "spark": {"default": {"memory": "768m", "master": "local[2]", "conf": conf, **spark}},
                    "catalogs": dict(table.catalogs),
                    "storage": list(storage),
                    "defaults": {"budget": {"first_clean": "allow", "shorter_retention": "allow"}},
                    "tables": [
                        {
                            "id": TABLE,
                            "mode": "act",
                            "poll": "500ms",
                            "services": dict(services),
                            **table.configured,
                        },
                        *({"mode": "act", "poll": "500ms", **other} for other in others),
                    ],
                }
            )
        )

    def start(self) -> None:
        """Start the daemon, the one of the tests where its environment tells of faults; returns at once."""
        serve = (
            doubles.DAEMON if fault_points.VARIABLE in os.environ else (sys.executable, "-m", "lakewarden.cli", "serve")
        )
        command = [*serve, "--config", "lakewarden.yaml"]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self.folder,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
            )

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The daemon's process."""
        assert self._process is not None
        return self._process

    def kill(self) -> None:
        """Kill the daemon and nothing else, and return when its worker and JVM are gone as well."""
        family = psutil.Process(self.process.pid).children(recursive=True)
        self.process.kill()
        self.process.wait()
        _, alive = psutil.wait_procs(family, timeout=HANGS)
        assert not alive, f"outlived the daemon: {alive}"

    def worker_jvms(self) -> list[psutil.Process]:
        """Return the JVMs of the session workers that are up."""
        family = psutil.Process(self.process.pid).children(recursive=True)
        return [process for process in family if process.name() == "java"]

    def kill_worker_jvm(self) -> None:
        """Kill the JVM of the session worker."""
        [jvm] = self.worker_jvms()
        jvm.kill()

    def stop(self) -> int:
        """End the daemon in good order and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=HANGS)

    def get(self, path: str) -> Any:
        """Return what the API answers. It is asked again while it is not up. Returns None once the process has ended.

        `verify=False` here and elsewhere: loading the certificates of the system takes 20 ms of a core, twenty times a
        second in `until`, and nothing here is TLS.
        """
        deadline = time.monotonic() + HANGS
        while self.process.poll() is None and time.monotonic() < deadline:
            try:
                answer = httpx.get(f"{self.url}{path}", timeout=60, verify=False)
            except httpx.TransportError:
                pass
            else:
                if answer.status_code != httpx.codes.SERVICE_UNAVAILABLE:
                    return answer.json()
            time.sleep(0.05)
        return None

    @property
    def url(self) -> str:
        """The address of the API."""
        return f"http://127.0.0.1:{self._port}"

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> httpx.Response:
        """Send a POST, empty unless there is a `body`."""
        return httpx.post(f"{self.url}{path}", json=body, timeout=HANGS, verify=False)

    def runs(self, service: str) -> list[dict[str, Any]]:
        """Return the runs of a service, the newest first; empty while the API is not up."""
        answer = self.get(f"/v1/runs?service={service}")
        found: list[dict[str, Any]] = answer["items"] if answer else []
        return found

    def until(self, what: Callable[[], Any], *, within: float = HANGS) -> Any:
        """Return what `what` returns once it is true. Fails with the daemon's last words after `within` seconds."""
        deadline = time.monotonic() + within
        while not (found := what()):
            if time.monotonic() > deadline:
                pytest.fail("it did not come true in time:\n" + self.log.read_text()[-4000:])
            time.sleep(0.05)
        return found

    def workers_ready(self) -> int:
        """Return how many times a session worker has come up, by the log."""
        return self.log.read_text().count("session_worker_ready")

    def until_succeeded(self, service: str, **figures: Any) -> dict[str, Any]:
        """Return the first run of a service that has succeeded on an instant."""

        def succeeded() -> dict[str, Any] | None:
            return next((r for r in self.runs(service) if r["state"] == "SUCCEEDED" and r["instant"]), None)

        found: dict[str, Any] = self.until(succeeded)
        return found

    def end(self) -> None:
        """Leave no process behind."""
        if self._process is not None and self._process.poll() is None:
            self.kill()
