"""A real daemon without a table: its warnings, and its end when its terminal is closed or it gets SIGHUP."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from lakewarden.demo.daemon import free_port


class _Served:
    """A daemon without a table, in a session of its own. The test can close its terminal."""

    def __init__(self, folder: Path) -> None:
        port = free_port()
        file = folder / "lakewarden.yaml"
        file.write_text(json.dumps({"api": {"port": port}, "management": {"port": free_port()}}))
        self._terminal, theirs = pty.openpty()
        self.said = folder / "said"
        with self.said.open("wb") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _IN_ITS_TERMINAL, "serve", "--config", str(file)],
                stdin=theirs,
                stdout=theirs,
                stderr=said,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
            )
        os.close(theirs)
        deadline = time.monotonic() + 60
        while not _answers(port):
            assert time.monotonic() < deadline, self.said.read_text()
            time.sleep(0.05)

    def close_terminal(self) -> None:
        """Close the terminal. The system then sends SIGHUP to the session's leader."""
        os.close(self._terminal)
        self._terminal = -1

    def ended(self) -> int:
        """Return the exit code."""
        return self.process.wait(timeout=30)

    def close(self) -> None:
        """Kill the process and close its files."""
        self.process.kill()
        self.process.wait()
        if self._terminal >= 0:
            self.close_terminal()


_IN_ITS_TERMINAL = """
import fcntl, signal, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup, and an ignored signal stays ignored
from lakewarden.cli import main
sys.exit(main())
"""


def _answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/v1/tables", timeout=1, verify=False).status_code == 200
    except httpx.TransportError:
        return False


@pytest.fixture
def served(tmp_path: Path) -> Iterator[_Served]:
    """Return a daemon that answers."""
    daemon = _Served(tmp_path)
    yield daemon
    daemon.close()


def test_a_daemon_whose_terminal_is_closed_ends_in_good_order(served: _Served) -> None:
    """It drains as after SIGTERM: its data folder is free, its store is closed, and the log has the reason."""
    served.close_terminal()

    assert served.ended() == 0
    assert '"event": "stopped"' in served.said.read_text()
    assert '"signal": "SIGHUP"' in served.said.read_text()


def test_a_daemon_that_is_told_to_hang_up_ends_in_good_order(served: _Served) -> None:
    """It has a terminal, so the signal may mean its end. Each warning of the start was logged once."""
    served.process.send_signal(signal.SIGHUP)

    assert served.ended() == 0
    assert "its terminal was closed" in served.said.read_text()
    told = [line for line in served.said.read_text().splitlines() if '"event": "configuration_warning"' in line]
    assert len(told) == 1
    assert "lakewarden.yaml: warning: tables: is empty: no table is served" in told[0]
    assert '"level": "warning"' in told[0]
