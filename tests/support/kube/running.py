"""One container of a pod: its process, its probes, and its restarts in place."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from tests.support.kube import container, images
from tests.support.kube.network import Sandbox
from tests.support.kube.volumes import Volumes

_FIRST_BACKOFF_SECONDS, _LONGEST_BACKOFF_SECONDS = 10.0, 300.0


def timestamp() -> str:
    """Return the time as Kubernetes writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Running:
    """Starts a container, and says how it is."""

    def __init__(self, spec: Mapping[str, Any], pod: Mapping[str, Any], volumes: Volumes, folder: Path) -> None:
        self.spec = spec
        self.restarts = 0
        self.started = self.ready = False
        self.begun_at = 0.0
        self._pod = pod
        self._volumes = volumes
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._begun = self._finished = ""
        self._last: dict[str, Any] = {}
        self._is_counted = False
        self._again_at = self._backoff = 0.0

    @property
    def name(self) -> str:
        """Its name in the pod."""
        return str(self.spec["name"])

    @property
    def exit_code(self) -> int | None:
        """How it ended; None while it runs or was never started."""
        return None if self._process is None else self._process.poll()

    @property
    def runs(self) -> bool:
        """Whether its process is there."""
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> Path:
        """What it printed, over all its lives."""
        return self._folder / f"{self.name}.log"

    def start(self, sandbox: Sandbox, hosts: Path) -> None:
        """Start it. Raises httpx.HTTPStatusError or KeyError while something that it needs is not there."""
        spec = self._specification(sandbox, hosts)
        file = self._folder / f"{self.name}.json"
        file.write_text(json.dumps(spec))
        command = [sys.executable, "-S", "-E", container.__file__, str(file)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log)
        self.begun_at, self._begun, self._finished = time.monotonic(), timestamp(), ""
        self._is_counted = False
        self.ready = not self._probe("readinessProbe") and not self._probe("startupProbe")
        self.started = not self._probe("startupProbe")

    def restart_when_due(self, sandbox: Sandbox, hosts: Path) -> None:
        """Start it again: the first time at once, then after a pause that doubles."""
        if not self._is_counted:
            self._is_counted, self._last = True, self._ended()
            self.ready = self.started = False
            self._again_at = time.monotonic() + self._backoff
            self._backoff = min(max(self._backoff * 2, _FIRST_BACKOFF_SECONDS), _LONGEST_BACKOFF_SECONDS)
        if time.monotonic() >= self._again_at:
            self.restarts += 1
            self.start(sandbox, hosts)

    def ask_to_end(self) -> None:
        """Send SIGTERM to its command."""
        if self.runs and self._process is not None:
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End all of its processes at once. Returns when none is there."""
        if self._process is None:
            return
        family: list[psutil.Process] = []
        with suppress(psutil.NoSuchProcess):
            family = psutil.Process(self._process.pid).children(recursive=True)
        self._process.kill()
        self._process.communicate()
        psutil.wait_procs(family, timeout=30)

    def crash(self) -> None:
        """Kill its command, as the kernel does when memory is short."""
        self._command().kill()

    def run(self, *command: str) -> str:
        """Return what a command prints in the container, as `kubectl exec` runs it."""
        first = self._first()
        spec = json.loads((self._folder / f"{self.name}.json").read_text())
        into = ["nsenter", "--target", str(first.pid), "--mount", "--pid", "--net", "--uts", "--", "setpriv"]
        into += [f"--reuid={spec['user']}", f"--regid={spec['group']}"]
        into += [f"--groups={','.join(map(str, spec['groups']))}" if spec["groups"] else "--clear-groups"]
        ended = subprocess.run(
            [*into, *command],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env=spec["environment"],
            cwd="/",
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    def status(self) -> dict[str, Any]:
        """Return its part of the status of the pod."""
        state: dict[str, Any]
        if self._process is None:
            state = {"waiting": {"reason": "ContainerCreating"}}
        elif self.runs:
            state = {"running": {"startedAt": self._begun}}
        else:
            state = {"terminated": self._ended()}
        image = str(self.spec["image"])
        found = {"name": self.name, "image": image, "imageID": image, "restartCount": self.restarts, "state": state}
        found |= {"ready": self.ready and self.runs, "started": self.started and self.runs}
        return {**found, "lastState": {"terminated": self._last} if self._last else {}}

    def _first(self) -> psutil.Process:
        assert self._process is not None
        [first] = psutil.Process(self._process.pid).children()
        return first

    def _command(self) -> psutil.Process:
        """Return the process of its command. Others are orphans of the command."""
        return min(self._first().children(), key=lambda process: int(process.create_time() * 1000))

    def _ended(self) -> dict[str, Any]:
        code = self.exit_code
        self._finished = self._finished or timestamp()
        reason = "Completed" if code == 0 else "Error"
        return {"exitCode": code, "reason": reason, "startedAt": self._begun, "finishedAt": self._finished}

    def _probe(self, name: str) -> Mapping[str, Any] | None:
        found: Mapping[str, Any] | None = self.spec.get(name)
        return found

    def _specification(self, sandbox: Sandbox, hosts: Path) -> dict[str, Any]:
        security = {**self._pod["spec"].get("securityContext", {}), **self.spec.get("securityContext", {})}
        command = [*(self.spec.get("command") or images.ENTRYPOINT), *self.spec.get("args", [])]
        root = self._folder / f"{self.name}.root"
        root.mkdir(exist_ok=True)
        cluster = {"source": str(hosts), "target": "/cluster", "read_only": True}
        own = {"HOSTNAME": self._pod["metadata"]["name"]}
        return {
            "sandbox": sandbox.pid,
            "root": str(root),
            "links": images.links(),
            "files": images.files(),
            "folders": [images.FOLDER.lstrip("/")],
            "mounts": [*images.mounts(), cluster, *self._volumes.mounts(self.spec)],
            "read_only_root": bool(security.get("readOnlyRootFilesystem")),
            "user": security.get("runAsUser", images.USER),
            "group": security.get("runAsGroup", images.GROUP),
            "groups": [security["fsGroup"]] if "fsGroup" in security else [],
            "folder": "/",
            "environment": {**images.ENVIRONMENT, **own, **self._volumes.environment(self.spec)},
            "command": command,
        }


class Prober(threading.Thread):
    """Asks the probes of one container as the kubelet does, from beside the pod, until it is told to end."""

    def __init__(self, running: Running, address: str, beside: Sandbox, unhealthy: Callable[[], None]) -> None:
        super().__init__(name=f"probes-{running.name}", daemon=True)
        self._running = running
        self._address = address
        self._beside = beside
        self._unhealthy = unhealthy
        self._over = threading.Event()
        self._life = 0.0
        self._due: dict[str, float] = {}
        self._failed: dict[str, int] = {}

    def end(self) -> None:
        """Ask no more."""
        self._over.set()

    def run(self) -> None:
        """Ask each probe when it is due."""
        with self._beside.inside():
            while not self._over.wait(0.1):
                if not self._running.runs:
                    continue
                if self._life != self._running.begun_at:
                    self._life, self._due, self._failed = self._running.begun_at, {}, {}
                for name in ("startupProbe", "livenessProbe", "readinessProbe"):
                    if (name == "startupProbe") != self._running.started:
                        self._ask_if_due(name)

    def _ask_if_due(self, name: str) -> None:
        probe = self._running.spec.get(name)
        now = time.monotonic()
        begins = self._running.begun_at + (probe or {}).get("initialDelaySeconds", 0)
        if probe is None or now < self._due.get(name, begins):
            return
        self._due[name] = now + probe["periodSeconds"]
        if self._answers(probe):
            self._failed[name] = 0
            if name == "startupProbe":
                self._running.started = True
                self._running.ready = "readinessProbe" not in self._running.spec
            elif name == "readinessProbe":
                self._running.ready = True
            return
        self._failed[name] = self._failed.get(name, 0) + 1
        if self._failed[name] < probe["failureThreshold"]:
            return
        if name == "readinessProbe":
            self._running.ready = False
        else:
            self._failed[name] = 0
            self._unhealthy()

    def _answers(self, probe: Mapping[str, Any]) -> bool:
        asked = probe["httpGet"]
        port = asked["port"]
        if isinstance(port, str):
            [port] = [one["containerPort"] for one in self._running.spec["ports"] if one["name"] == port]
        connection = http.client.HTTPConnection(self._address, port, timeout=probe["timeoutSeconds"])
        with suppress(OSError, http.client.HTTPException):
            try:
                connection.request("GET", asked["path"], headers={"Host": self._address, "User-Agent": "kube-probe/1"})
                return 200 <= connection.getresponse().status < 400
            finally:
                connection.close()
        return False
