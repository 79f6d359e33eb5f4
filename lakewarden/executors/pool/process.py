"""One session worker as a child process: starting it, and ending it together with its JVM."""

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

_COMMAND = (sys.executable, "-m", "lakewarden.executors.worker.main")
_POLL_SECONDS = 0.02
_SEND_WITHIN = struct.pack("ll", 1, 0)
"""One second, as a `struct timeval`: a worker that is frozen does not empty its channel, and must not hold us up."""


class WorkerProcess:
    """A worker, its JVM and the channel to it.

    The worker leads a session of its own: a Ctrl-C in our terminal reaches us alone, and everything it starts can
    be found and killed as one process group. Whatever it and its JVM print goes to `log`; what they leave in
    temporary folders goes to `scratch`, which lasts no longer than they do: a killed JVM tidies nothing up. All of
    them bear `mark`, by which they are found should we be killed (leftovers.py).
    """

    def __init__(self, *, directory: Path, log: Path, scratch: Path, mark: str) -> None:
        self._scratch = scratch
        shutil.rmtree(scratch, ignore_errors=True)  # of a daemon that was killed
        scratch.mkdir(parents=True, mode=0o700)
        ours, theirs = socket.socketpair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _SEND_WITHIN)
        with theirs, log.open("ab") as output:
            self._process = subprocess.Popen(
                [*_COMMAND, str(theirs.fileno())],
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
        """The worker's process id, which is also that of its process group."""
        return self._process.pid

    def kill(self) -> None:
        """Kill the worker, its JVM and whatever else it started, all at one stroke. Returns at once."""
        with self._ending:
            if not self._gone:  # until it is reaped, no other process can have got its id
                os.killpg(self.pid, signal.SIGKILL)

    def wait_until_gone(self) -> None:
        """Kill what is left of the worker and return when no process of its group is alive. Any thread may wait."""
        self.kill()
        while not self._gone and _living_members(self.pid):
            time.sleep(_POLL_SECONDS)
        with self._ending:
            if not self._gone:
                self._process.wait()
                self._gone = True

    def tidy_up(self) -> None:
        """Close the channel and remove the scratch folder of a worker that is gone: by whoever listened to it."""
        self.channel.close()
        shutil.rmtree(self._scratch, ignore_errors=True)


def _environment(scratch: Path, mark: str) -> dict[str, str]:
    """Return our environment, marked, with this very package importable and temporary folders kept in `scratch`.

    A JVM takes the names of files as its locale has it (`sun.jnu.encoding`): in `LC_ALL=C` it finds no file with a
    letter beyond ASCII in its path, and a clean says to have deleted what is still there (run).
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
    """Return the processes of `group` that still run. A zombie runs no more, whether or not its parent reaps it; but
    while one of its threads is held up in the kernel, what that began may still come to pass.
    """
    living = []
    for process in psutil.process_iter(["status"]):
        with contextlib.suppress(ProcessLookupError, psutil.Error):
            is_zombie = process.info["status"] == psutil.STATUS_ZOMBIE
            if os.getpgid(process.pid) == group and not (is_zombie and process.num_threads() <= 1):
                living.append(process.pid)
    return living
