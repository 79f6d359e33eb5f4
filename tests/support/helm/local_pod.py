"""The container of the chart without a container: its command on this machine, as rendered, in a folder of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from lakewarden.demo.daemon import Child, free_port
from tests.support.helm.chart import Rendered
from tests.support.waiting import HANGS

_API = 8080


class LocalPod:
    """Runs the rendered command with the rendered configuration; only folders and ports are replaced."""

    def __init__(self, rendered: Rendered, folder: Path) -> None:
        self._rendered = rendered
        self._ports = {port["containerPort"]: free_port() for port in rendered.container["ports"]}
        self._folders = {"/etc/lakewarden": folder / "etc", "/var/lib/lakewarden": folder / "data"}
        for made in self._folders.values():
            made.mkdir(parents=True)
        (folder / "etc" / "lakewarden.yaml").write_text(self._here(rendered.config))
        cli = [sys.executable, "-m", "lakewarden.cli"]
        create = [*cli, "keys", "create", "tests", "--role", "viewer", "--json"]
        create += ["--config", str(folder / "etc" / "lakewarden.yaml")]
        said = subprocess.run(create, check=True, capture_output=True, text=True, timeout=120).stdout
        self._key = str(json.loads(said)["key"])
        command = [*cli, *map(self._here, rendered.arguments)]
        self._child = Child("pod", command, log=folder / "pod.log")

    def _here(self, text: str) -> str:
        for rendered, ours in self._ports.items():
            text = text.replace(f"port: {rendered}", f"port: {ours}")
        for rendered_folder, our_folder in self._folders.items():
            text = text.replace(rendered_folder, str(our_folder))
        return text

    def local(self, address: str) -> str:
        """Return an address of a Service of the chart as it is on this machine."""
        port = urlsplit(address).port or 0
        return f"http://127.0.0.1:{self._ports[port]}"

    def probe(self, name: str) -> int | None:
        """Return the status that the kubelet would get; None where nobody listens."""
        port, path = self._rendered.probes()[name]
        answer = self._get(port, path)
        return None if answer is None else answer.status_code

    def ask(self, path: str) -> Any:
        """Return what the API answers; None while it is not up."""
        answer = self._get(_API, path)
        return None if answer is None else answer.json()

    def _get(self, port: int, path: str) -> httpx.Response | None:
        try:
            address, headers = f"http://127.0.0.1:{self._ports[port]}{path}", {"X-API-Key": self._key}
            return httpx.get(address, headers=headers, timeout=5, verify=False)
        except httpx.TransportError:
            return None

    def until(self, what: Callable[[], Any], *, within: float = HANGS) -> Any:
        """Return what `what` returns once it is true. Fails with the daemon's last words."""
        deadline = time.monotonic() + within
        while not (found := what()):
            if time.monotonic() > deadline or self._child.exit_code is not None:
                pytest.fail(f"it did not come true:\n{self._child.last_words(40)}")
            time.sleep(0.05)
        return found

    def runs(self, service: str) -> list[Mapping[str, Any]]:
        """Return the runs of a service, the newest first."""
        return list((self.ask(f"/v1/runs?service={service}") or {"items": []})["items"])

    def terminate(self) -> None:
        """Send what the kubelet sends first."""
        self._child.ask_to_end()

    def ending(self) -> int:
        """Return the exit code within the grace that is left after `terminate`; -9 where the kubelet would kill it."""
        deadline = time.monotonic() + self._rendered.grace
        while self._child.exit_code is None and time.monotonic() < deadline:
            time.sleep(0.05)
        return -signal.SIGKILL if self._child.exit_code is None else self._child.exit_code

    def end(self) -> None:
        """Leave no process behind."""
        self._child.end(grace=timedelta(0))
