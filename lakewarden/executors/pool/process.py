"""One session worker as a child process: its start, and its end together with its JVM."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

import lakewarden
from lakewarden.executors.pool import leftovers
from lakewarden.executors.protocol import Channel

COMMAND = (sys.executable, "-m", "lakewarden.executors.worker.main")
_POLL_SECONDS = 0.02
_SEND_WITHIN = struct.pack("ll", 1, 0)
"""One second, as a `struct timeval`. A frozen worker does not empty its channel, and must not block the daemon."""


class WorkerProcess:
    """A worker, its JVM and the channel to it.

    The worker leads a session of its own. So a Ctrl-C in the daemon's terminal reaches only the daemon, and everything
    that the worker starts can be killed as one process group. The output of the worker and its JVM goes to `log`. Their
    temporary folders are in `scratch`, which is deleted with them, because a killed JVM deletes nothing. All processes
    have `mark`. By it the next daemon finds them if this one is killed (leftovers.py).
    """

    def __init__(self, command: Sequence[str], *, directory: Path, log: Path, scratch: Path, mark: str) -> None:
        self._scratch = scratch
        shutil.rmtree(scratch, ignore_errors=True)  # left by a daemon that was killed
        scratch.mkdir(parents=True, mode=0o700)
        ours, theirs = socket.socketpair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _SEND_WITHIN)
        with theirs, log.open("ab") as output:
            self._process = subprocess.Popen(
                [*command, str(theirs.fileno())],
                cwd=directory,
                env=_environment(scratch, mark),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self.channel = Channel(ours)
        self._ending = threading.Lock()
        self._gone = False

    @property
    def pid(self) -> int:
        """The worker's process id. It is also the id of its process group."""
        return self._process.pid

    @property
    def is_gone(self) -> bool:
        """Whether a call of `wait_until_gone` has found no living process of it."""
        return self._gone

    def kill(self) -> None:
        """Kill the worker, its JVM and everything else that it started, all at once. Returns at once."""
        with self._ending:
            if not self._gone:  # before it is reaped, no other process can have its id
                os.killpg(self.pid, signal.SIGKILL)

    def wait_until_gone(self) -> None:
        """Kill the rest of the worker's group. Return when no process of it is alive. Any thread may wait."""
        self.kill()
        while not self._gone and _living_members(self.pid):
            time.sleep(_POLL_SECONDS)
        with self._ending:
            if not self._gone:
                self._process.wait()
                self._gone = True

    def tidy_up(self) -> None:
        """Close the channel and remove the scratch folder of a worker that is gone. The thread that listened to it
        calls this.
        """
        self.channel.close()
        shutil.rmtree(self._scratch, ignore_errors=True)


def _environment(scratch: Path, mark: str) -> dict[str, str]:
    """Return the daemon's environment with the mark. This very package is importable, and temporary folders are in
    `scratch`.

    A JVM decodes file names by its locale (`sun.jnu.encoding`). With `LC_ALL=C` it finds no file with a letter beyond
    ASCII in its path. Then a clean reports files as deleted that still exist (run).
    """
    root = str(Path(lakewarden.__file__).parent.parent)
    inherited = os.environ.get("PYTHONPATH")
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([root, inherited] if inherited else [root]),
        "LC_ALL": "C.UTF-8",
        "TMPDIR": str(scratch),
        "SPARK_LOCAL_DIRS": str(scratch),
        leftovers.VARIABLE: mark,
    }


def _living_members(group: int) -> Sequence[int]:
    """Return the processes of `group` that still run. A zombie does not run any more, even if its parent never reaps
    it. But while one of its threads waits in the kernel, the operation of that thread may still take effect.
    """
    living = []
    for process in psutil.process_iter(["status"]):
        with contextlib.suppress(ProcessLookupError, psutil.Error):
            is_zombie = process.info["status"] == psutil.STATUS_ZOMBIE
            if os.getpgid(process.pid) == group and not (is_zombie and process.num_threads() <= 1):
                living.append(process.pid)
    return living
