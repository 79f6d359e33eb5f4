"""What a daemon that was killed may have left running: found by a mark that only its own workers bear, and ended.

A worker ends by itself when its daemon is gone, and its JVM with it. But not while they are stopped, or hang: they
would go on when they are continued, in the middle of a step. A process id is no name for them, since it is used again
and the worker may be gone whose JVM is left. So every process of a worker bears a random mark in its environment, which
it cannot lose, and the marks are kept in a file in the pool's own folder. (On Linux; elsewhere nothing is found.)
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
import uuid
from collections.abc import Collection
from pathlib import Path

import psutil
import structlog

from lakewarden.executors.identity import ProcessIdentity

VARIABLE = "LAKEWARDEN_WORKERS"

log = structlog.get_logger(__name__)

_PATIENCE_SECONDS = 10.0
_POLL_SECONDS = 0.05


class Marks:
    """The marks of one pool's workers, in a file that outlives the daemon."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "workers.marks"

    def renew(self) -> str:
        """End whatever bears a mark of an earlier pool in this folder, and return the mark for this one, which is kept
        before any process bears it.

        What cannot be ended in ten seconds (the kernel may hold a process in a read from a dead file server) is left,
        logged, and remembered for the next start. Nothing that it still does is taken for dead meanwhile.
        """
        if not hasattr(os, "pidfd_open"):
            return uuid.uuid4().hex
        earlier = set(self._file.read_text().split()) if self._file.exists() else set()
        left = _end_bearers(earlier)
        mark = uuid.uuid4().hex
        draft = self._file.with_suffix(".new")
        draft.write_text("\n".join([*sorted(earlier if left else ()), mark]))
        draft.replace(self._file)
        return mark


def _end_bearers(marks: Collection[str]) -> bool:
    """Kill every process that bears one of the marks; return whether one is left after a while."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    dying: set[ProcessIdentity] = set()
    while marks:
        found = {identity for process in psutil.process_iter() if (identity := _kill_if_bearing(process, marks))}
        if found - dying:
            log.warning("processes of a daemon that is gone are ended", processes=sorted(each.pid for each in found))
        dying = {identity for identity in dying | found if not identity.is_proved_dead()}
        if not dying:
            return False
        if time.monotonic() > deadline:
            pids = sorted(each.pid for each in dying)
            log.error("processes of a daemon that is gone do not end: see what holds them", processes=pids)
            return True
        time.sleep(_POLL_SECONDS)
    return False


def _kill_if_bearing(process: psutil.Process, marks: Collection[str]) -> ProcessIdentity | None:
    """Kill the process if it bears one of the marks, and return who it was.

    Its descriptor is opened before its mark is looked at: if the id changes hands meanwhile, the signal still goes to
    who had it first, and is lost.
    """
    with contextlib.suppress(psutil.Error, OSError):  # it is gone, or somebody else's
        descriptor = os.pidfd_open(process.pid)
        try:
            identity = ProcessIdentity.of(process.pid)
            if process.environ().get(VARIABLE) in marks:
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                return identity
        finally:
            os.close(descriptor)
    return None
