"""A real daemon without a table: what it warns of, and its end when its terminal is closed or it is told to hang up."""

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

from lakewarden.demo.process import free_port


class _Served:
    """A daemon without a table, in a session of its own, whose terminal is ours to close."""

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
        """Close the terminal: the system then tells the session's leader to hang up."""
        os.close(self._terminal)
        self._terminal = -1

    def ended(self) -> int:
        """Return the exit code."""
        return self.process.wait(timeout=30)

    def close(self) -> None:
        """Leave nothing behind."""
        self.process.kill()
        self.process.wait()
        if self._terminal >= 0:
            self.close_terminal()


_IN_ITS_TERMINAL = """
import fcntl, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from lakewarden.cli import main
sys.exit(main())
"""


def _answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/v1/tables", timeout=1).status_code == 200
    except httpx.TransportError:
        return False


@pytest.fixture
def served(tmp_path: Path) -> Iterator[_Served]:
    """Return a daemon that answers."""
    daemon = _Served(tmp_path)
    yield daemon
    daemon.close()


def test_a_daemon_whose_terminal_is_closed_ends_in_good_order(served: _Served) -> None:
    """It drains as after SIGTERM: its data folder is free, its store is closed, and the log says why."""
    served.close_terminal()

    assert served.ended() == 0
    assert '"event": "stopped"' in served.said.read_text()
    assert '"signal": "SIGHUP"' in served.said.read_text()


def test_a_daemon_that_is_told_to_hang_up_ends_in_good_order(served: _Served) -> None:
    """Nothing is read anew: the log says that the configuration is read at start only."""
    served.process.send_signal(signal.SIGHUP)

    assert served.ended() == 0
    assert "the configuration is read at start only" in served.said.read_text()


def test_a_warning_of_the_configuration_is_logged_once(served: _Served) -> None:
    """At the start, with file, key and what becomes of it."""
    told = [line for line in served.said.read_text().splitlines() if '"event": "configuration"' in line]

    assert len(told) == 1
    assert "lakewarden.yaml: warning: tables: there are none, and nothing under discover" in told[0]
    assert '"level": "warning"' in told[0]
