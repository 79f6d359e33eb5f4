"""A daemon that is killed with -9 in the middle of a request with a key, and the client that sends it again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakewarden.demo.process import free_port

KILLED_AT = """
import os, signal, sys
import sqlalchemy as sa
from lakewarden.cli import main

@sa.event.listens_for(sa.Engine, "before_cursor_execute")
def die(connection, cursor, statement, *_):
    if statement.startswith(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)

main(["serve", "--config", sys.argv[2]])
"""
PAUSE = "/v1/tables/orders/pause"
SENT: dict[str, Any] = {"headers": {"Idempotency-Key": "one"}, "json": {"reason": "a migration"}}


class Restarted:
    """A daemon with one directory as a table, which is started again on the same store."""

    def __init__(self, folder: Path) -> None:
        self._config, self._log, port = folder / "lakewarden.yaml", folder / "log", free_port()
        (folder / "orders" / "day=2026-01-01").mkdir(parents=True)
        self._config.write_text(
            json.dumps(
                {
                    "api": {"port": port},
                    "management": {"port": free_port()},
                    "daemon": {"data_dir": str(folder / "data"), "drain": "1s"},
                    "tables": [{"id": "orders", "format": "directory", "path": str(folder / "orders")}],
                }
            )
        )
        self.api = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, verify=False)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *, killed_at: str = "never") -> None:
        """Start it, and wait until it owns its table."""
        with self._log.open("ab") as log:
            command = [sys.executable, "-c", KILLED_AT, killed_at, str(self._config)]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + 60
        while not self._owns():
            assert self.process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, self._log.read_text()
            time.sleep(0.05)

    def _owns(self) -> bool:
        try:
            return self.api.get("/v1/tables/orders").json().get("owner") is not None
        except httpx.TransportError:
            return False

    def wait(self) -> int:
        """Wait for its end."""
        assert self.process is not None
        return self.process.wait(60)

    def end(self, how: signal.Signals) -> None:
        """End it."""
        if self.process is not None and self.process.poll() is None:
            os.kill(self.process.pid, how)
            self.wait()

    def acts(self) -> list[str]:
        """Return what the audit log has."""
        return [act["kind"] for act in self.api.get("/v1/audit").json()["items"]]


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Restarted]:
    daemon = Restarted(tmp_path)
    yield daemon
    daemon.end(signal.SIGTERM)


def test_a_request_that_is_sent_again_after_a_kill_never_acts_twice(daemon: Restarted) -> None:
    """Killed after the act and before the answer was stored, its end is not known. Killed after that, it is."""
    daemon.start(killed_at="UPDATE answers")
    with pytest.raises(httpx.TransportError):
        daemon.api.post(PAUSE, **SENT)
    assert daemon.wait() == -signal.SIGKILL

    daemon.start()
    again = daemon.api.post(PAUSE, **SENT)
    assert (again.status_code, again.json()["code"]) == (409, "outcome_unknown")
    assert daemon.acts() == ["paused"]

    other = {**SENT, "headers": {"Idempotency-Key": "two"}}
    assert daemon.api.post("/v1/tables/orders/resume", headers={"Idempotency-Key": "two"}).status_code == 204
    daemon.end(signal.SIGKILL)
    daemon.start()
    replayed = daemon.api.post("/v1/tables/orders/resume", headers={"Idempotency-Key": "two"})
    assert (replayed.status_code, replayed.headers["Idempotent-Replayed"]) == (204, "true")
    assert daemon.acts() == ["resumed", "paused"]
    assert daemon.api.post(PAUSE, **other).status_code == 204, "a key counts for its route alone"


@pytest.mark.faults
def test_a_request_whose_daemon_was_killed_before_it_acted_is_not_carried_out(daemon: Restarted) -> None:
    """The daemon that is started again cannot tell this from the other case, and says so."""
    daemon.start(killed_at="INSERT INTO acts")
    with pytest.raises(httpx.TransportError):
        daemon.api.post(PAUSE, **SENT)
    assert daemon.wait() == -signal.SIGKILL

    daemon.start()
    assert daemon.api.post(PAUSE, **SENT).json()["code"] == "outcome_unknown"
    assert daemon.acts() == []
