"""A process that reads tables for the daemon. It changes nothing, so it may be killed at any time.

The daemon starts it with `python -m lakewarden.planners.reading SOCKET BOARD PARENT`: two inherited descriptors, and
the process that it must not outlive. Each thread makes one observation at a time, in the order of the requests.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import queue
import resource
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, NoReturn

from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.ports import Storage, TableFormat
from lakewarden.planners.reading.board import Board
from lakewarden.planners.reading.frames import Frames, believed, framed
from lakewarden.planners.reading.observing import (
    Answers,
    ObservationAnswer,
    ObservationRequest,
    Observer,
    ReadFailure,
)
from lakewarden.planners.registry import FORMATS
from lakewarden.planners.settings import format_size
from lakewarden.planners.sharing import SharedValues
from lakewarden.planners.storage import Storages
from lakewarden.planners.storage.settings import StoreSettings

_GATHER_SECONDS = 0.02
"""The longest time for which answers are collected before they are sent, if no observation takes longer."""

_STACK_BYTES = 2**20
"""The stack of each of many threads. It counts as memory."""

_RECEIVE_BYTES = 2**18


@dataclass(frozen=True, kw_only=True, slots=True)
class Hello:
    """The first message to a reader: how to reach stores, below which roots files may be read, and the limits on its
    threads and bytes of memory.
    """

    stores: Sequence[StoreSettings]
    roots: Sequence[str]
    threads: int
    memory: int


Poll = tuple[int, TableId, int]
"""A short request: its ticket, the table, and the ticket of the observation that the reader and the asker both
know."""


class ObservationRequests(NamedTuple):
    """Requests for observations, at the daemon's time `now`. The `polls` come first, because they are many and short.

    `others` are the other requests, each with its table's id in place of the table. `tables` are those that the reader
    does not know yet. `forgotten` are those that it must forget.
    """

    now: datetime
    polls: Sequence[Poll] = ()
    others: Sequence[tuple[TableId, ObservationRequest]] = ()
    tables: Sequence[Table] = ()
    forgotten: Sequence[TableId] = ()


class Reader:
    """The process. It takes requests from its socket and answers each, in its threads."""

    def __init__(self, channel: socket.socket, board: Board, observer: Observer, hello: Hello) -> None:
        self._channel = channel
        self._board = board
        self._observer = observer
        self._hello = hello
        self._tables: dict[TableId, Table] = {}
        self._shared = SharedValues()
        self._asked: queue.SimpleQueue[tuple[datetime, ObservationRequest]] = queue.SimpleQueue()
        self._answering = threading.Lock()

    def serve(self, frames: Frames) -> None:
        """Answer until the daemon closes the socket. `frames` may hold bytes that came with the first frame."""
        if self._hello.threads > 1:
            threading.stack_size(_STACK_BYTES)
            for number in range(self._hello.threads):
                threading.Thread(target=self._work, args=(number,), daemon=True).start()
        while True:
            while (content := frames.next()) is not None:
                self._take(believed(content))
            received = self._channel.recv(_RECEIVE_BYTES)
            if not received:
                return
            frames.feed(received)

    def _take(self, message: ObservationRequests) -> None:
        self._tables.update((table.id, self._shared.table(table)) for table in message.tables)
        for forgotten in message.forgotten:
            self._tables.pop(forgotten, None)
            self._observer.forget(forgotten)
        requests = [
            ObservationRequest(ticket, self._tables[table], known=last_ticket)
            for ticket, table, last_ticket in message.polls
        ]
        requests += [request._replace(table=self._tables[table]) for table, request in message.others]
        if self._hello.threads == 1:
            self._make(requests, now=message.now, thread=0)
            return
        for request in requests:
            self._asked.put((message.now, request))

    def _work(self, thread: int) -> None:
        while True:
            now, request = self._asked.get()
            self._make([request], now=now, thread=thread)

    def _make(self, requests: Sequence[ObservationRequest], *, now: datetime, thread: int) -> None:
        """Make observations, one after the other, and answer each that is still wanted."""
        unchanged: list[int] = []
        others: list[ObservationAnswer] = []
        sent_at = time.monotonic()
        for request in requests:
            if not self._board.is_wanted(request.ticket):
                continue
            began = time.monotonic()
            if (unchanged or others) and began - sent_at > _GATHER_SECONDS:
                self._answer(Answers(unchanged, others))
                unchanged, others, sent_at = [], [], began
            self._board.begin(thread, request.ticket, began)
            try:
                answer = self._observer.observe(request, now=now)
            except MemoryError:
                self._give_up(request)
            if answer is None:
                unchanged.append(request.ticket)
            else:
                others.append(answer)
        self._board.end(thread)
        if unchanged or others:
            self._answer(Answers(unchanged, others))

    def _answer(self, answers: Answers) -> None:
        content = framed(answers)
        with self._answering:
            self._channel.sendall(content)

    def _give_up(self, request: ObservationRequest) -> NoReturn:
        """Say what could not be read, and end the process. After a MemoryError its memory cannot be relied on."""
        largest = format_size(self._hello.memory)
        error = PermanentError(f"its metadata cannot be read within {largest} of memory: see reading.memory")
        self._answer(Answers(others=(ObservationAnswer(request.ticket, failure=ReadFailure.of(error)),), ends=True))
        os._exit(0)


def serve(
    arguments: Sequence[str],
    *,
    formats: Mapping[str, TableFormat] = FORMATS,
    storage_for: Callable[[Hello], Callable[[str], Storage]] = lambda hello: (
        Storages(hello.stores, roots=hello.roots).of
    ),
) -> None:
    """Read tables until the daemon closes the socket."""
    channel, board, parent = socket.socket(fileno=int(arguments[0])), int(arguments[1]), int(arguments[2])
    die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a ^C of the terminal is for the daemon, which drains
    frames = Frames()
    while (first := frames.next()) is None:
        received = channel.recv(_RECEIVE_BYTES)
        if not received:
            return
        frames.feed(received)
    hello: Hello = believed(first)
    limit_memory(hello.memory)
    gc.collect()
    gc.freeze()
    observer = Observer(formats=formats, storage_for=storage_for(hello))
    Reader(channel, Board(board, threads=hello.threads), observer, hello).serve(frames)


# The limits of a reader process. It also ends with the daemon. Linux only.

_PR_SET_PDEATHSIG = 1
_FIRST_TO_GO = "800"


def limit_memory(memory: int) -> None:
    """Limit this process to `memory` bytes of data. A larger request gets a MemoryError. If the kernel runs out of
    memory, it kills this process before Lakewarden's other processes. No core is dumped.
    """
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_GO, encoding="ascii")


def die_with_parent(parent: int) -> None:
    """Let the kernel kill this process as soon as its parent process `parent` is gone.

    Source: prctl(2). The signal belongs to the thread that started this process, so that thread must live as long as
    its process.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
