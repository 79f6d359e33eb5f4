"""Archived timelines are read in processes of their own, one for each page. They delay no observation."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

from lakewarden.planners.model.errors import TemporaryError, UnknownError
from lakewarden.planners.model.instant import ArchivePage
from lakewarden.planners.model.table import Table
from lakewarden.planners.ports import NoArchiveError
from lakewarden.planners.reading.board import shared_memory
from lakewarden.planners.reading.frames import Frames, checked, framed
from lakewarden.planners.reading.observing import ArchiveAnswer, ArchiveRequest
from lakewarden.planners.reading.process import Hello
from lakewarden.planners.storage.settings import StoreSettings
from lakewarden.service.config.document import ReadingSettings
from lakewarden.service.state.readers.child import COMMAND

MOST_AT_ONCE = 2
"""How many archives are read at the same time."""

TIMEOUT = timedelta(seconds=20)
"""A page that takes longer is given up. Its process is killed."""

_TURN_SECONDS = 5.0
_RECEIVE_BYTES = 2**18
_AGAIN = timedelta(seconds=2)


class ArchiveReaders:
    """Reads pages of archived timelines. Any thread may call it, and waits for the page."""

    def __init__(
        self,
        *,
        settings: ReadingSettings | None = None,
        stores: Sequence[StoreSettings] = (),
        roots: Sequence[str] = (),
        command: Sequence[str] = COMMAND,
        timeout: timedelta = TIMEOUT,
    ) -> None:
        """`command` starts a reader process."""
        memory = (settings or ReadingSettings()).memory
        self._hello = Hello(stores=stores, roots=roots, threads=1, memory=memory)
        self._command = command
        self._timeout = timeout
        self._turns = threading.BoundedSemaphore(MOST_AT_ONCE)

    def page(self, table: Table, *, before: datetime | None, limit: int) -> ArchivePage:
        """Return archived instants of a table that were requested before a moment, the newest first.

        Raises NoArchiveError if the table has no archive that Lakewarden reads, TemporaryError if the page is not there
        in time, PermanentError if the archive is damaged, and UnknownError if the process ended.
        """
        if not self._turns.acquire(timeout=_TURN_SECONDS):
            raise TemporaryError(f"{MOST_AT_ONCE} archives are being read: ask again", delay=_AGAIN)
        try:
            answer = self._answer(ArchiveRequest(table, before, limit))
        finally:
            self._turns.release()
        if answer.failure is not None:
            raise NoArchiveError(answer.failure.message) if answer.without else answer.failure.error()
        if answer.page is None:
            raise UnknownError(f"the reader of the archive of {table.id} answered nothing")
        return answer.page

    def _answer(self, request: ArchiveRequest) -> ArchiveAnswer:
        until = time.monotonic() + self._timeout.total_seconds()
        try:
            with _process(self._command) as channel:
                _limit(channel, until)
                channel.sendall(framed(self._hello) + framed(request))
                frames = Frames()
                while (content := frames.next()) is None:
                    _limit(channel, until)
                    received = channel.recv(_RECEIVE_BYTES)
                    if not received:
                        raise UnknownError(f"reading the archive of {request.table.id} ended the process that read it")
                    frames.feed(received)
        except TimeoutError:
            seconds = self._timeout.total_seconds()
            raise TemporaryError(f"the archive of {request.table.id} was not read within {seconds:.0f} s") from None
        except OSError as error:
            raise TemporaryError(f"no process that reads the archive of {request.table.id} can be started") from error
        answer = checked(content)
        if not isinstance(answer, ArchiveAnswer):
            raise UnknownError(f"a reader sent a {type(answer).__name__}")
        return answer


def _limit(channel: socket.socket, until: float) -> None:
    channel.settimeout(max(0.001, until - time.monotonic()))


@contextmanager
def _process(command: Sequence[str]) -> Iterator[socket.socket]:
    """Start a reader process, and yield its socket. At the end it is killed. Nothing waits for one that a storage
    blocks.
    """
    ours, theirs = socket.socketpair()
    memory = shared_memory(threads=1)
    with ours:
        try:
            process = subprocess.Popen(
                [*command, str(theirs.fileno()), str(memory), str(os.getpid())],
                pass_fds=(theirs.fileno(), memory),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        finally:
            theirs.close()
            os.close(memory)
        try:
            yield ours
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=1)
