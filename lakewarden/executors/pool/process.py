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
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import structlog

import lakewarden
from lakewarden.executors.contract import Blame, RunProgress, WorkerEnd
from lakewarden.executors.identity import ProcessIdentity
from lakewarden.executors.pool.supervision import KillReason, Watchdog, Wear
from lakewarden.executors.protocol import Channel, Unable
from lakewarden.planners.model.instant import RunId

COMMAND = (sys.executable, "-m", "lakewarden.executors.worker.main")
_POLL_SECONDS = 0.02
_SEND_WITHIN = struct.pack("ll", 1, 0)
"""One second, as a `struct timeval`. A frozen worker does not empty its channel, and must not block the daemon."""


class WorkerProcess:
    """A worker, its JVM and the channel to it.

    The worker leads a session of its own. So a Ctrl-C in the daemon's terminal reaches only the daemon, and everything
    that the worker starts can be killed as one process group. The output of the worker and its JVM goes to `log`. Their
    temporary folders are in `scratch`, which is deleted with them, because a killed JVM deletes nothing. All processes
    have `mark`. By it the next daemon finds them if this one is killed (`renewed_mark`).
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
        VARIABLE: mark,
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


# One session worker, as its pool knows it.


@dataclass(kw_only=True, slots=True, eq=False)
class LivingWorker:
    """One worker, from its start to its end. The lock of the pool guards it, except for `process`."""

    name: str
    log: Path
    process: WorkerProcess
    watchdog: Watchdog
    wear: Wear  # since it is ready
    slots: int = 0  # 0 until it is ready
    runs: set[RunId] = field(default_factory=set)
    progress: dict[RunId, RunProgress] = field(default_factory=dict)  # of its runs, the newest
    fault: KillReason | None = None  # why the daemon killed it
    unable: Unable | None = None  # why it says that it can work no more
    ours: bool = False  # whether the daemon killed it for a reason that no run has caused
    until: float | None = None  # the moment until which it was last told to live
    kept: bool = True  # also when there is nothing to do
    retiring: bool = False  # it takes no new run, and is asked to stop when it has none
    resting: bool = False  # because there was nothing to do
    stopping: bool = False

    @property
    def takes_runs(self) -> bool:
        """Whether it may be given a run, if it has a slot."""
        return not self.retiring and self.fault is None and self.unable is None

    @property
    def free(self) -> int:
        """How many more runs it takes."""
        return self.slots - len(self.runs) if self.takes_runs else 0

    def blame(self, run: RunId) -> Blame:
        """Return whether a run that was in the worker is the cause of its death."""
        if self.ours or (self.unable is not None and self.unable.no_run_is_to_blame):
            return Blame.NOT_ITS
        if self.fault is not None and self.fault.culprits:
            return Blame.ITS_OWN if run in self.fault.culprits else Blame.NOT_ITS
        return Blame.ITS_OWN if self.runs == {run} else Blame.UNKNOWN

    @property
    def why_gone(self) -> str:
        """Why it ended, if it has, in words."""
        if self.fault is not None:
            return self.fault.reason
        return f"its process ended, {self.log.name} says why" if self.unable is None else self.unable.reason

    @property
    def end(self) -> WorkerEnd:
        """Why it ended, if it has."""
        if self.ours:
            return WorkerEnd.EVICTED
        if self.fault is not None:
            return WorkerEnd.KILLED
        if self.resting:
            return WorkerEnd.RESTED
        return WorkerEnd.REPLACED if self.stopping else WorkerEnd.DIED

    def is_out_of_time(self, now: float) -> bool:
        """Whether the moment is over until which the worker may live. Then it ends by itself."""
        return self.until is not None and now >= self.until


# Ends the processes that a killed daemon may have left. They are found by a mark that only its workers have.
#
# A worker ends by itself when its daemon is gone, and its JVM with it. But a stopped or hanging process does not. It
# would continue in the middle of a step when it is resumed. A process id does not identify it: ids are used again, and
# the JVM of a dead worker may still run. So every process of a worker has a random mark in its environment, which it
# cannot lose. The marks are kept in a file in the pool's own folder.

VARIABLE = "LAKEWARDEN_WORKERS"

log = structlog.get_logger(__name__)

_TIMEOUT_SECONDS = 10.0
_GONE_POLL_SECONDS = 0.05


def renewed_mark(directory: Path) -> str:
    """End every process with a mark of an earlier pool in this folder. Return the mark for this pool, which is stored
    before any process has it.

    If a process does not end in ten seconds, it is left, logged, and remembered for the next start. The kernel may hold
    it in a read from a dead file server. Such a process does not count as dead.
    """
    file = directory / "workers.marks"
    earlier = set(file.read_text().split()) if file.exists() else set()
    left = _end_bearers(earlier)
    mark = uuid.uuid4().hex
    draft = file.with_suffix(".new")
    draft.write_text("\n".join([*sorted(earlier if left else ()), mark]))
    draft.replace(file)
    return mark


def _end_bearers(marks: Collection[str]) -> bool:
    """Kill every process with one of the marks. Return whether one is left after a while."""
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    dying: set[ProcessIdentity] = set()
    while marks:
        bearers = {identity for process in psutil.process_iter() if (identity := _kill_if_bearing(process, marks))}
        if bearers - dying:
            log.warning("leftover_processes_ended", processes=sorted(each.pid for each in bearers))
        dying = {identity for identity in dying | bearers if not identity.is_proved_dead()}
        if not dying:
            return False
        if time.monotonic() > deadline:
            pids = sorted(each.pid for each in dying)
            log.error("leftover_processes_do_not_end", processes=pids)
            return True
        time.sleep(_GONE_POLL_SECONDS)
    return False


def _kill_if_bearing(process: psutil.Process, marks: Collection[str]) -> ProcessIdentity | None:
    """Kill the process if it has one of the marks. Return its identity.

    Its descriptor is opened before its mark is read. If the id is used again meanwhile, the signal still goes to the
    first process, and has no effect.
    """
    with contextlib.suppress(psutil.Error, OSError):  # the process is gone, or belongs to another user
        descriptor = os.pidfd_open(process.pid)
        try:
            identity = ProcessIdentity.of(process.pid)
            if process.environ().get(VARIABLE) in marks:
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                return identity
        finally:
            os.close(descriptor)
    return None


# The log of a session worker. Its size is bounded while it is written.

LOG_BYTES = 64 * 2**20
"""How large a worker's log may grow before it becomes the older log. The older log has at most as many bytes."""


READ_AT_ONCE_BYTES = 256 * 2**10
"""How much of a log is followed at a time. A JVM that writes more is followed later, or not at all."""


class LogTail:
    """Follows one log from its present end on. The log may be emptied, or not exist yet. Not thread-safe."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._rest = b""
        self._at = 0
        with contextlib.suppress(FileNotFoundError):
            self._at = log.stat().st_size

    def lines(self) -> list[str]:
        """Return the lines that were written since the last call. A line without an end is returned when it has one,
        or when it is longer than what is read at a time.
        """
        try:
            with self._log.open("rb") as log:
                if os.fstat(log.fileno()).st_size < self._at:  # it was emptied
                    self._at, self._rest = 0, b""
                log.seek(self._at)
                read = log.read(READ_AT_ONCE_BYTES)
        except OSError:
            return []
        self._at += len(read)
        *whole, self._rest = (self._rest + read).split(b"\n")
        if len(self._rest) >= READ_AT_ONCE_BYTES:
            whole, self._rest = [*whole, self._rest], b""
        return [line.decode(errors="replace").rstrip("\r") for line in whole if line.strip()]


def keep_within(log: Path, limit: int = LOG_BYTES) -> None:
    """If `log` is larger than `limit` bytes, replace `<log>.1` by its content, and empty it.

    It is emptied in place, because a worker and its JVM have it open for appending. What they write in the microseconds
    between the copy and the emptying is lost. Of a dead worker nothing is lost. On a full disk the older log is deleted
    first, and the next call does the rest.
    """
    older = log.with_name(f"{log.name}.1")
    with contextlib.suppress(FileNotFoundError):
        if log.stat().st_size <= limit:
            return
        try:
            with log.open("rb+") as current, older.open("wb", buffering=0) as kept:
                shutil.copyfileobj(current, kept)
                current.truncate(0)
        except OSError:
            older.unlink(missing_ok=True)
