"""The daemon of the demo: a real one in a process of its own. The demo uses only its API and its metrics, as any client
does.
"""

from __future__ import annotations

import contextlib
import http
import http.client
import itertools
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psutil
import yaml
from prometheus_client.parser import text_string_to_metric_families

import lakewarden
from lakewarden.executors.worker import java
from lakewarden.executors.worker.bundles import spark_jars
from lakewarden.executors.worker.java import java_home
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import Service
from lakewarden.service.http.schemas import RunBody, TableBody
from lakewarden.service.reporting.explain import TableExplanation

# A process that the demo has started. The demo can always end it, together with every process that it started itself.

_POLL_SECONDS = 0.05


class Child:
    """One of the demo's processes.

    It leads a session of its own. So a Ctrl-C in the terminal reaches only the demo, which then ends its children in
    order. Its output goes to `log`. `variables` are added to its environment.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log: Path,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                cwd=log.parent,
                env={**environment(), **variables},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process id, which is also that of its process group."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    def ask_to_end(self) -> None:
        """Ask it to finish its work and to exit. Returns at once."""
        if self.exit_code is None:
            self._process.send_signal(signal.SIGTERM)

    def end(self, *, grace: timedelta) -> None:
        """Ask it to end, and kill it after `grace`. Returns when none of its processes is alive."""
        family = self._family()
        self.ask_to_end()
        deadline = time.monotonic() + grace.total_seconds()
        while _alive(family) and time.monotonic() < deadline:
            self._process.poll()
            time.sleep(_POLL_SECONDS)
        while left := _alive(family):
            for process in left:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self._process.poll()
            time.sleep(_POLL_SECONDS)
        self._process.wait()

    def last_words(self, lines: int = 5) -> str:
        """Return the last lines that it printed."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def _family(self) -> list[psutil.Process]:
        """Return the processes of its group, and all their descendants: session workers lead sessions of their own."""
        family: dict[int, psutil.Process] = {}
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
                if os.getpgid(process.pid) == self.pid:
                    family |= {member.pid: member for member in (process, *process.children(recursive=True))}
        return list(family.values())


_turns = itertools.count(secrets.randbelow(12_000))


def free_port() -> int:
    """Return a loopback port without a listener. No connection of another program gets it: systems take the ports of
    those from 32768 on. Each process goes through the ports from a start of its own. So two processes that look at the
    same time seldom find the same port.
    """
    while True:
        port = 20_000 + next(_turns) % 12_000
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def _alive(processes: Sequence[psutil.Process]) -> list[psutil.Process]:
    """Return the processes that still run. psutil distinguishes a process from a later one with the same id."""
    alive = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                alive.append(process)
    return alive


def environment() -> dict[str, str]:
    """Return the environment of this process, with this package importable from any directory."""
    root = str(Path(lakewarden.__file__).parent.parent)
    inherited = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([root, inherited] if inherited else [root])}


TABLE = "orders"
_CLI = (sys.executable, "-m", "lakewarden.cli")
SERVE = (*_CLI, "serve")
"""The command that starts the daemon. Its configuration is appended."""

_GRACE = timedelta(seconds=20)
_ANSWER_SECONDS = 10
_MOST_RUNS = 1000


class RequestRefusedError(Exception):
    """The daemon refused the request."""


class DaemonProcess:
    """`lakewarden serve` with one table and one worker; its configuration and its data are in `directory`."""

    def __init__(
        self,
        directory: Path,
        *,
        table: Mapping[str, Any],
        services: Mapping[str, Any],
        settings: Mapping[str, Any] = MappingProxyType({}),
        variables: Mapping[str, str] = MappingProxyType({}),
        serve: Sequence[str] = SERVE,
    ) -> None:
        """Start it. `table` is the table's entry in the configuration, `services` are its policies. `settings` are
        added to the configuration, or replace what the demo has. `variables` are added to its environment. `serve` is
        the command that starts it, without its configuration.
        """
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._variables = variables
        self._serve = serve
        self._api, self._management = free_port(), free_port()
        self._config = directory / "lakewarden.yaml"
        whole = merged(self._settings(table, services), settings)
        self._config.write_text(yaml.safe_dump(whole, sort_keys=False), encoding="utf-8")
        self.process = self._started()

    def restart(self) -> None:
        """Start it again after its death, with the same configuration, data and ports."""
        self.process = self._started()

    def writer_options(self, table: str = TABLE, *, engine: str = "spark") -> dict[str, str]:
        """Return the options that `lakewarden writer-options` prints for a writer of a table.

        Raises TemporaryError if the command fails.
        """
        command = self._command("writer-options", table, "--engine", engine, "--json")
        process = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
        if process.returncode != 0:
            raise TemporaryError(f"there are no writer options: {process.stderr}", delay=timedelta(seconds=1))
        return {option["key"]: option["value"] for option in json.loads(process.stdout)["options"]}

    @property
    def page(self) -> str:
        """The address of the table's page, for a browser."""
        return f"http://127.0.0.1:{self._api}/tables/{TABLE}"

    def ready(self) -> bool:
        """Whether its worker's session is up."""
        try:
            notes = json.loads(self._ask(self._management, "/readyz"))["notes"]
        except (TemporaryError, RequestRefusedError):
            return False
        return bool(notes == [])

    def table(self) -> TableBody:
        """Return the table as the daemon sees it. Raises TemporaryError if the daemon does not answer."""
        return TableBody.model_validate_json(self._ask(self._api, f"/v1/tables/{TABLE}"))

    def runs(self) -> list[RunBody]:
        """Return all runs, the newest first. Raises TemporaryError if the daemon does not answer."""
        rows = json.loads(self._ask(self._api, f"/v1/runs?limit={_MOST_RUNS}"))["items"]
        return [RunBody.model_validate(run) for run in rows]

    def hooks_accepted(self) -> int:
        """Return how many commit hooks it has taken. Raises TemporaryError if the daemon does not answer."""
        counted = self._counted("lakewarden_hooks_total")
        return sum(times for labels, times in counted if labels.get("result") == "accepted")

    def explain(self, table: str = TABLE) -> TableExplanation:
        """Return why its services run or do not. Raises TemporaryError if the daemon does not answer."""
        return TableExplanation.model_validate_json(self._ask(self._api, f"/v1/tables/{table}/explain"))

    def writer_failures(self) -> Mapping[bool, int]:
        """Return the failed writes that its metrics count, by whether they count as caused by it. Raises
        TemporaryError if the daemon does not answer.
        """
        counted = self._counted("lakewarden_writer_failures_total")
        return {
            ours: sum(n for labels, n in counted if (labels["near_us"] == "true") is ours) for ours in (True, False)
        }

    def request_run(self, service: Service, table: str = TABLE) -> str:
        """Ask for a run, whatever the trigger says. Returns why there is none, empty if there is one."""
        try:
            self._ask(self._api, f"/v1/tables/{table}/services/{service}/runs", method="POST")
        except RequestRefusedError as refused:
            return str(refused)
        return ""

    def pause(self) -> None:
        """Let it start nothing more on the table. Raises TemporaryError if the daemon does not answer."""
        self._ask(self._api, f"/v1/tables/{TABLE}/pause", method="POST")

    def resume(self) -> None:
        """End the table's pause, and the quarantines of its services. Raises TemporaryError if it does not answer."""
        self._ask(self._api, f"/v1/tables/{TABLE}/resume", method="POST")

    def stop(self) -> None:
        """End it with its worker and the worker's JVM. Returns when they are gone."""
        self.process.end(grace=_GRACE)

    def _started(self) -> Child:
        log = self._directory / "daemon.log"
        return Child("daemon", [*self._serve, "--config", str(self._config)], log=log, variables=self._variables)

    def _counted(self, name: str) -> list[tuple[Mapping[str, str], int]]:
        """Return the samples of one metric, with their labels."""
        families = text_string_to_metric_families(self._ask(self._management, "/metrics"))
        samples = [sample for family in families for sample in family.samples]
        return [(sample.labels, int(sample.value)) for sample in samples if sample.name == name]

    def _settings(self, table: Mapping[str, Any], services: Mapping[str, Any]) -> dict[str, Any]:
        """Return the configuration that a user would write for this table."""
        light_jvm = {"spark.driver.extraJavaOptions": java.LIGHT}
        return {
            "daemon": {"data_dir": "data", "drain": "5s"},
            "api": {"port": self._api},
            "management": {"port": self._management},
            "spark": {"default": {"workers": 1, "formats": [table["format"]], "conf": light_jvm}},
            # nobody is there to approve
            "defaults": {"budget": {"first_clean": "allow", "shorter_retention": "allow"}},
            "tables": [{"id": TABLE, "mode": "act", **table, "services": dict(services)}],
        }

    def _command(self, *arguments: str) -> list[str]:
        return [*_CLI, *arguments, "--config", str(self._config)]

    def _ask(self, port: int, path: str, *, method: str = "GET") -> str:
        """Return an answer of the daemon. The request ignores the proxies that the environment names."""
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_ANSWER_SECONDS)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            content = answer.read().decode()
        except (OSError, http.client.HTTPException) as silent:
            raise TemporaryError(f"the daemon does not answer: {silent}", delay=timedelta(seconds=1)) from silent
        finally:
            connection.close()
        if answer.status >= http.HTTPStatus.BAD_REQUEST:
            raise RequestRefusedError(_message(content, answer.status))
        return content


def merged(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with `more` added to it. If both have a mapping under a key, these are merged in the same way."""
    copy = dict(base)
    for key, value in more.items():
        below = copy.get(key)
        copy[key] = merged(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return copy


def _message(content: str, status: int) -> str:
    try:
        return str(json.loads(content)["detail"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP status {status}"


# A ZooKeeper for the lock of the demo's table. PySpark has the server among its jars.

_MAIN = "org.apache.zookeeper.server.ZooKeeperServerMain"
_ZOOKEEPER_GRACE = timedelta(seconds=5)


class ZooKeeper:
    """One standalone server on the loopback interface, with its data and its log in `directory`."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        settings = directory / "zoo.cfg"
        settings.write_text(
            f"dataDir={directory / 'data'}\n"
            "clientPortAddress=127.0.0.1\n"
            f"clientPort={self.port}\n"
            "tickTime=2000\n"
            "admin.enableServer=false\n"
            "4lw.commands.whitelist=srvr\n"
        )
        java = str(java_home() / "bin" / "java")
        command = [java, "-Xmx128m", "-cp", f"{spark_jars()}/*", _MAIN, str(settings)]
        self.process = Child("zookeeper", command, log=directory / "zookeeper.log")

    @property
    def address(self) -> str:
        """`host:port`, the value of `hoodie.write.lock.zookeeper.url`."""
        return f"127.0.0.1:{self.port}"

    def ready(self) -> bool:
        """Whether it answers ZooKeeper's four-letter question `srvr`."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"srvr")
                return connection.recv(64).startswith(b"Zookeeper version")
        except OSError:
            return False

    def stop(self) -> None:
        """End it. Returns when it is gone."""
        self.process.end(grace=_ZOOKEEPER_GRACE)
