"""A process that reads tables for the daemon, and may be killed at any time: it changes nothing.

`python -m lakewarden.planners.reading SOCKET BOARD PARENT` is how the daemon starts it: two inherited
descriptors, and the process that it must not outlive. One thread is one look at a time, in the order they were asked.
"""

from __future__ import annotations

import gc
import os
import queue
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, NoReturn

from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.ports import Storage, TableFormat
from lakewarden.planners.reading import limits
from lakewarden.planners.reading.board import Board
from lakewarden.planners.reading.frames import Frames, believed, framed
from lakewarden.planners.reading.looks import Answers, LookAnswer, LookAsked, Looker, Trouble
from lakewarden.planners.registry import FORMATS
from lakewarden.planners.settings import format_size
from lakewarden.planners.storage import Storages
from lakewarden.planners.storage.settings import StoreSettings

_GATHER_SECONDS = 0.02
"""Answers of tables that did not change are sent at least as often."""

_STACK_BYTES = 2**20
"""The stack of each of many threads: it counts as memory."""

_RECEIVE_BYTES = 2**18


@dataclass(frozen=True, kw_only=True, slots=True)
class Hello:
    """What a reader is told first: how stores are reached, and what it may use: threads, and bytes of memory."""

    stores: Sequence[StoreSettings]
    threads: int
    memory: int


Poll = tuple[int, TableId, int]
"""A look at a table: its ticket, the table, and the ticket of the look by which the reader and the asker know it."""


class Looks(NamedTuple):
    """Looks to make, at what is the daemon's time `now`: `polls` come first, since they are many and short.

    `others` are the other looks, each with its table's id in place of the table. `tables` are those that the reader was
    not told of before, `forgotten` those that are let go.
    """

    now: datetime
    polls: Sequence[Poll] = ()
    others: Sequence[tuple[TableId, LookAsked]] = ()
    tables: Sequence[Table] = ()
    forgotten: Sequence[TableId] = ()


class Reader:
    """The process: takes looks from its socket, and answers each, in its threads."""

    def __init__(self, channel: socket.socket, board: Board, looker: Looker, hello: Hello) -> None:
        self._channel = channel
        self._board = board
        self._looker = looker
        self._hello = hello
        self._tables: dict[TableId, Table] = {}
        self._asked: queue.SimpleQueue[tuple[datetime, LookAsked]] = queue.SimpleQueue()
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

    def _take(self, message: Looks) -> None:
        self._tables.update((table.id, table) for table in message.tables)
        for forgotten in message.forgotten:
            self._tables.pop(forgotten, None)
            self._looker.forget(forgotten)
        looks = [LookAsked(ticket, self._tables[table], known=known) for ticket, table, known in message.polls]
        looks += [asked._replace(table=self._tables[table]) for table, asked in message.others]
        if self._hello.threads == 1:
            self._make(looks, now=message.now, thread=0)
            return
        for asked in looks:
            self._asked.put((message.now, asked))

    def _work(self, thread: int) -> None:
        while True:
            now, asked = self._asked.get()
            self._make([asked], now=now, thread=thread)

    def _make(self, looks: Sequence[LookAsked], *, now: datetime, thread: int) -> None:
        """Make looks, one after the other, and answer each that is still wanted."""
        unchanged: list[int] = []
        sent_at = time.monotonic()
        for asked in looks:
            if not self._board.is_wanted(asked.ticket):
                continue
            began = time.monotonic()
            if unchanged and began - sent_at > _GATHER_SECONDS:
                self._answer(Answers(unchanged))
                unchanged, sent_at = [], began
            self._board.begin(thread, asked.ticket, began)
            try:
                answer = self._looker.look(asked, now=now)
            except MemoryError:
                self._give_up(asked)
            if answer is None:
                unchanged.append(asked.ticket)
            else:
                self._answer(Answers(others=(answer,)))
        self._board.end(thread)
        if unchanged:
            self._answer(Answers(unchanged))

    def _answer(self, answers: Answers) -> None:
        content = framed(answers)
        with self._answering:
            self._channel.sendall(content)

    def _give_up(self, asked: LookAsked) -> NoReturn:
        """Say what could not be read, and end: what is left of the memory is nobody's to count on."""
        largest = format_size(self._hello.memory)
        error = PermanentError(f"its metadata cannot be read within {largest} of memory: see reading.memory")
        self._answer(Answers(others=(LookAnswer(asked.ticket, trouble=Trouble.of(error)),), ends=True))
        os._exit(0)


def serve(
    arguments: Sequence[str],
    *,
    formats: Mapping[str, TableFormat] = FORMATS,
    storage_for: Callable[[Sequence[StoreSettings]], Callable[[str], Storage]] = lambda stores: Storages(stores).of,
) -> None:
    """Read tables until the daemon closes the socket."""
    channel, board, parent = socket.socket(fileno=int(arguments[0])), int(arguments[1]), int(arguments[2])
    limits.die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's ^C is for the daemon, which drains
    frames = Frames()
    while (first := frames.next()) is None:
        received = channel.recv(_RECEIVE_BYTES)
        if not received:
            return
        frames.feed(received)
    hello: Hello = believed(first)
    limits.limit_memory(hello.memory)
    gc.collect()
    gc.freeze()
    looker = Looker(formats=formats, storage_for=storage_for(hello.stores))
    Reader(channel, Board(board, threads=hello.threads), looker, hello).serve(frames)
