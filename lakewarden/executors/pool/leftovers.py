"""Ends the processes that a killed daemon may have left. They are found by a mark that only its workers have.

A worker ends by itself when its daemon is gone, and its JVM with it. But a stopped or hanging process does not. It
would continue in the middle of a step when it is resumed. A process id does not identify it: ids are used again, and
the JVM of a dead worker may still run. So every process of a worker has a random mark in its environment, which it
cannot lose. The marks are kept in a file in the pool's own folder. (On Linux. Elsewhere nothing is found.)
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

_TIMEOUT_SECONDS = 10.0
_POLL_SECONDS = 0.05


class Marks:
    """The marks of one pool's workers, in a file that outlives the daemon."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "workers.marks"

    def renew(self) -> str:
        """End every process with a mark of an earlier pool in this folder. Return the mark for this pool, which is
        stored before any process has it.

        If a process does not end in ten seconds, it is left, logged, and remembered for the next start. The kernel may
        hold it in a read from a dead file server. Such a process does not count as dead.
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
    """Kill every process with one of the marks. Return whether one is left after a while."""
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    dying: set[ProcessIdentity] = set()
    while marks:
        found = {identity for process in psutil.process_iter() if (identity := _kill_if_bearing(process, marks))}
        if found - dying:
            log.warning("leftover_processes_ended", processes=sorted(each.pid for each in found))
        dying = {identity for identity in dying | found if not identity.is_proved_dead()}
        if not dying:
            return False
        if time.monotonic() > deadline:
            pids = sorted(each.pid for each in dying)
            log.error("leftover_processes_do_not_end", processes=pids)
            return True
        time.sleep(_POLL_SECONDS)
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
