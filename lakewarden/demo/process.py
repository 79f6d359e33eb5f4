"""A process that the demo has started. The demo can always end it, together with every process that it started
itself.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType

import psutil

import lakewarden

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


def free_port() -> int:
    """Return a loopback port without a listener. No connection of another program gets it: systems take the ports of
    those from 32768 on.
    """
    while True:
        port = 20_000 + secrets.randbelow(12_000)
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
