"""A real daemon in a process of its own, for the figures that need a whole daemon."""

from __future__ import annotations

import http.client
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from lakewarden.demo.daemon import Child, free_port

_GRACE = timedelta(seconds=30)


class Served:
    """One daemon. `port` is the port of its API."""

    def __init__(self, directory: Path, settings: Mapping[str, Any], *, module: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.port, self._management = free_port(), free_port()
        config = directory / "bench.yaml"
        whole = {
            "daemon": {"data_dir": "data", "drain": "1s"},
            "api": {"port": self.port},
            "management": {"port": self._management},
            **settings,
        }
        config.write_text(json.dumps(whole))  # JSON is YAML, too, and has no aliases
        command = [sys.executable, "-m", module, "serve", "--config", str(config)]
        self.process = Child("daemon", command, log=directory / "daemon.log")

    def get(self, path: str) -> Any:
        """Return an answer of the API."""
        return json.loads(self._ask(self.port, "GET", path)[1])

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> int:
        """Send a POST and return the status of the answer. Raises RuntimeError if it is refused."""
        status, answer = self._ask(self.port, "POST", path, json.dumps(body or {}))
        if status >= http.HTTPStatus.BAD_REQUEST:
            raise RuntimeError(f"POST {path}: {status} {answer.decode(errors='replace')}")
        return status

    def ready(self) -> bool:
        """Whether its workers are up."""
        try:
            status, answer = self._ask(self._management, "GET", "/readyz")
            return status == http.HTTPStatus.OK and json.loads(answer)["notes"] == []
        except OSError:
            return False

    def scrape(self) -> bytes:
        """Return the metrics."""
        return self._ask(self._management, "GET", "/metrics")[1]

    def page(self, path: str) -> bytes:
        """Return a page. Raises RuntimeError if it is another answer."""
        status, answer = self._ask(self.port, "GET", path)
        if status != http.HTTPStatus.OK or b"</html>" not in answer:
            raise RuntimeError(f"GET {path}: {status}")
        return answer

    def log_lines(self) -> Iterator[dict[str, Any]]:
        """Yield the events that it has logged so far."""
        for line in self.process.log.read_text(errors="replace").splitlines():
            if line.startswith("{"):
                yield json.loads(line)

    def until(self, what: Callable[[], bool], *, within: float = 180, every: float = 0.1) -> None:
        """Wait until a condition is true. Raises TimeoutError with the daemon's last lines if it stays false."""
        deadline = time.monotonic() + within
        while not what():
            if self.process.exit_code is not None or time.monotonic() > deadline:
                raise TimeoutError(f"it did not come true:\n{self.process.last_words(20)}")
            time.sleep(every)

    def run_of(self, table: str) -> dict[str, Any] | None:
        """Return the table's newest run that has ended."""
        runs: Sequence[dict[str, Any]] = self.get(f"/v1/runs?table={table}&limit=1")["items"]
        return runs[0] if runs and runs[0]["ended_at"] else None

    def _ask(self, port: int, method: str, path: str, body: str | None = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            connection.request(method, path, body, {} if body is None else {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


@contextmanager
def served(directory: Path, settings: Mapping[str, Any], *, module: str = "lakewarden.cli") -> Iterator[Served]:
    """Serve for as long as the context is open, from the moment when the daemon is ready."""
    daemon = Served(directory, settings, module=module)
    try:
        daemon.until(daemon.ready)
        yield daemon
    finally:
        daemon.process.end(grace=_GRACE)
