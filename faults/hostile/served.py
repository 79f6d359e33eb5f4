"""A daemon over many tables, started as a user starts it, and its answers."""

from __future__ import annotations

import http.client
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from faults.injection.victims import left_of
from lakewarden.demo.daemon import Child, free_port

_OURS = ("127.0.0.2", 0)
"""The address of our requests. It is another address than that of the hostile clients, as a kubelet's is."""


_A_MOMENT_SECONDS = 3.0


def left_behind(directory: Path) -> int:
    """Return how many processes still work in the directory of a daemon that has ended. The kernel ends the daemon's
    readers a moment after the daemon, so this waits for that moment.
    """
    deadline = time.monotonic() + _A_MOMENT_SECONDS
    while (left := left_of(directory)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return len(left)


class NoAnswerError(Exception):
    """There was no answer, or not in time, or not a valid one."""


class Served:
    """`lakewarden serve` in a process of its own, with a drain of `drain_seconds`."""

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, Any],
        *,
        drain_seconds: int = 5,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.drain_seconds = drain_seconds
        self.api, self.management = free_port(), free_port()
        self.config = directory / "lakewarden.yaml"
        self.data = directory / "data"
        whole = {
            "daemon": {"data_dir": str(self.data), "drain": f"{drain_seconds}s"},
            "api": {"port": self.api},
            "management": {"port": self.management},
            **settings,
        }
        self.config.write_text(json.dumps(whole), encoding="utf-8")  # JSON is YAML, too, and has no aliases
        command = [sys.executable, "-m", "lakewarden.cli", "serve", "--config", str(self.config)]
        self.process = Child("daemon", command, log=directory / "daemon.log", variables=variables)

    def alive(self, *, within: float) -> None:
        """Ask `/livez`. Raises NoAnswerError unless it says in time that the daemon is alive."""
        self._asked(self.management, "/livez", within)

    def metrics(self, *, within: float) -> str:
        """Return the metrics, as Prometheus scrapes them. Raises NoAnswerError."""
        return self._asked(self.management, "/metrics", within)

    def get(self, path: str, *, within: float = 30) -> Any:
        """Return an answer of the API, as JSON. Raises NoAnswerError."""
        return json.loads(self._asked(self.api, path, within))

    def tables(self, *, within: float = 30) -> dict[str, dict[str, Any]]:
        """Return every table by its id, as the API shows it. Raises NoAnswerError."""
        return {str(table["id"]): table for table in self.get("/v1/tables?limit=1000", within=within)["items"]}

    def responds(self) -> bool:
        """Whether the management port answers at all."""
        try:
            self.alive(within=2)
        except NoAnswerError:
            return False
        return True

    def seconds_to_end(self, *, at_most: float) -> float | None:
        """Ask the process to end, and return how long that took. None if it has not ended after `at_most` seconds."""
        begun = time.monotonic()
        self.process.ask_to_end()
        while self.process.exit_code is None:
            if time.monotonic() - begun > at_most:
                return None
            time.sleep(0.05)
        return time.monotonic() - begun

    def _asked(self, port: int, path: str, within: float) -> str:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=within, source_address=_OURS)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            content = answer.read().decode()
        except (OSError, http.client.HTTPException, UnicodeDecodeError) as silent:
            raise NoAnswerError(f"{path}: {type(silent).__name__} {silent}") from silent
        finally:
            connection.close()
        if answer.status != http.HTTPStatus.OK:
            raise NoAnswerError(f"{path}: HTTP status {answer.status} {content[:200]}")
        return content
