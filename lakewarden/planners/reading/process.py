"""A process that reads tables for the daemon. It changes nothing, so it may be killed at any time.

The daemon starts it with `python -m lakewarden.planners.reading SOCKET BOARD PARENT`: two inherited descriptors, and
the process that it must not outlive. Each thread makes one observation at a time.
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
from collections import deque
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


class Outbox:
    """Answers that are sent together."""

    def __init__(self, send: Callable[[Answers], None]) -> None:
        self._send = send
        self._unchanged: list[int] = []
        self._others: list[ObservationAnswer] = []
        self._since = 0.0

    def put(self, ticket: int, answer: ObservationAnswer | None) -> None:
        """Collect the answer to a request. None means that nothing has changed."""
        if not self._unchanged and not self._others:
            self._since = time.monotonic()
        if answer is None:
            self._unchanged.append(ticket)
        else:
            self._others.append(answer)

    def send(self, *, after_seconds: float = 0.0) -> None:
        """Send the answers, if the first was collected so long ago."""
        if (self._unchanged or self._others) and time.monotonic() - self._since >= after_seconds:
            self._send(Answers(self._unchanged, self._others))
            self._unchanged, self._others = [], []


class Reader:
    """The process. It takes requests from its socket and answers each, in its threads.

    A single thread reads the known tables first, those with an observation that the daemon keeps. Before each other
    table it takes what has come meanwhile. So new and broken tables, which may take long, do not delay the others.
    """

    def __init__(self, channel: socket.socket, board: Board, observer: Observer, hello: Hello) -> None:
        self._channel = channel
        self._board = board
        self._observer = observer
        self._hello = hello
        self._tables: dict[TableId, Table] = {}
        self._shared = SharedValues()
        self._asked: queue.SimpleQueue[tuple[datetime, ObservationRequest]] = queue.SimpleQueue()
        self._known: deque[tuple[datetime, ObservationRequest]] = deque()
        self._others: deque[tuple[datetime, ObservationRequest]] = deque()
        self._outbox = Outbox(self._answer)
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
            self._make_known_and_one_other()
            try:
                received = self._channel.recv(_RECEIVE_BYTES, socket.MSG_DONTWAIT if self._others else 0)
            except BlockingIOError:
                continue
            if not received:
                return
            frames.feed(received)

    def _take(self, message: ObservationRequests) -> None:
        while message.forgotten and self._others:  # they may be of tables to forget
            self._make_known_and_one_other()
        self._tables.update((table.id, self._shared.table(table)) for table in message.tables)
        for forgotten in message.forgotten:
            self._tables.pop(forgotten, None)
            self._observer.forget(forgotten)
        requests = [
            ObservationRequest(ticket, self._tables[table], known=last_ticket)
            for ticket, table, last_ticket in message.polls
        ]
        requests += [request._replace(table=self._tables[table]) for table, request in message.others]
        for request in requests:
            if self._hello.threads > 1:
                self._asked.put((message.now, request))
            elif request.known is not None:
                self._known.append((message.now, request))
            else:
                self._others.append((message.now, request))

    def _make_known_and_one_other(self) -> None:
        while self._known:
            self._make(*self._known.popleft(), thread=0, outbox=self._outbox)
            if not self._known:
                self._outbox.send()
        if self._others:
            self._make(*self._others.popleft(), thread=0, outbox=self._outbox)
        if not self._others:
            self._board.end(0)
            self._outbox.send()

    def _work(self, thread: int) -> None:
        outbox = Outbox(self._answer)
        while True:
            now, request = self._asked.get()
            self._make(now, request, thread=thread, outbox=outbox)
            self._board.end(thread)
            outbox.send()

    def _make(self, now: datetime, request: ObservationRequest, *, thread: int, outbox: Outbox) -> None:
        """Make an observation, if it is still wanted."""
        if not self._board.is_wanted(request.ticket):
            return
        outbox.send(after_seconds=_GATHER_SECONDS)
        self._board.begin(thread, request.ticket, time.monotonic())
        try:
            outbox.put(request.ticket, self._observer.observe(request, now=now))
        except MemoryError:
            self._give_up(request)

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
