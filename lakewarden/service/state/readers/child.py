"""One reader process, as the daemon sees it: its requests, its current work, and whether it lives."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import cast

import structlog

from lakewarden.planners.model.errors import UnknownError
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.reading.board import Board, shared_memory
from lakewarden.planners.reading.frames import Frames, checked, framed
from lakewarden.planners.reading.observing import Answers, ObservationRequest
from lakewarden.planners.reading.process import Hello, ObservationRequests
from lakewarden.planners.storage.settings import StoreSettings

COMMAND = (sys.executable, "-m", "lakewarden.planners.reading")
KILLED = f"signal {int(signal.SIGKILL)}"
"""How a process ends that was killed from outside."""

_RECEIVE_BYTES = 2**18

_TOLD = Table(id=TableId(""), format="", location="")
"""Stands in a request for a table that the reader knows already."""


class ReaderProcess:
    """A reader process. Only the thread that keeps the readers uses it, and never waits for it."""

    def __init__(self, hello: Hello, *, command: Sequence[str] = COMMAND) -> None:
        ours, theirs = socket.socketpair()
        memory = shared_memory(threads=hello.threads)
        try:
            self._process = subprocess.Popen(
                [*command, str(theirs.fileno()), str(memory), str(os.getpid())],
                pass_fds=(theirs.fileno(), memory),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
            self._board = Board(memory, threads=hello.threads)
        finally:
            theirs.close()
            os.close(memory)
        ours.settimeout(0)
        self.channel = ours
        self.threads = hello.threads
        self.requests: dict[int, ObservationRequest] = {}
        """The requests that it has not answered, by their tickets, the oldest first."""
        self.asked_at = time.monotonic()
        """When the last request was sent to it, in monotonic seconds."""
        self._heard_at = self.asked_at
        self._has_answered = False
        self.has_swelled = False
        """Whether it has reported that it ends because of its memory."""
        self._knows: dict[TableId, int] = {}
        self._tables: set[TableId] = set()
        self._outgoing: deque[bytes] = deque([framed(hello)])
        self._frames = Frames()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def has_answered(self) -> bool:
        """Whether it has answered at least once."""
        return self._has_answered

    @property
    def has_more_to_send(self) -> bool:
        """Whether bytes wait until its socket takes them."""
        return bool(self._outgoing)

    def knows(self, request: ObservationRequest) -> bool:
        """Whether it remembers the observation that the requester keeps of the table."""
        return request.known is not None and self._knows.get(request.table.id) == request.known

    def remembers(self, tables: Collection[TableId]) -> bool:
        """Whether it remembers one of these tables."""
        return not self._knows.keys().isdisjoint(tables)

    def ask(self, requests: Sequence[ObservationRequest], *, now: datetime) -> None:
        """Send it requests."""
        if not self.requests:
            self._heard_at = time.monotonic()
        polls, others, new = [], [], []
        for request in requests:
            ticket, table, anew, full, base, _ = request
            self.requests[ticket] = request
            if base is not None and self._knows.get(table.id) == base:
                if not anew and not full:
                    polls.append((ticket, table.id, base))
                    continue
                request = request._replace(previous=None)  # noqa: PLW2901 - the process remembers it
            others.append((table.id, request._replace(table=_TOLD)))
            if table.id not in self._tables:
                self._tables.add(table.id)
                new.append(table)
        self.asked_at = time.monotonic()
        self._outgoing.append(framed(ObservationRequests(now=now, polls=polls, others=others, tables=new)))

    def forget(self, table: TableId, *, now: datetime) -> None:
        """Have it forget a table."""
        self._knows.pop(table, None)
        if table in self._tables:
            self._tables.discard(table)
            self._outgoing.append(framed(ObservationRequests(now=now, forgotten=(table,))))

    def send(self) -> None:
        """Send what its socket takes now. If the process is gone, the rest is dropped."""
        while self._outgoing:
            try:
                sent = self.channel.send(self._outgoing[0])
            except BlockingIOError:
                return
            except OSError:
                self._outgoing.clear()
                return
            rest = self._outgoing.popleft()[sent:]
            if rest:
                self._outgoing.appendleft(rest)

    def receive(self) -> list[Answers] | None:
        """Return the answers that have come, or None if it is gone. Raises UnknownError if the message is no answer."""
        try:
            received = self.channel.recv(_RECEIVE_BYTES)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not received:
            return None
        self._heard_at = time.monotonic()
        self._has_answered = True
        self._frames.feed(received)
        return list(self._whole())

    def _whole(self) -> Iterator[Answers]:
        while (content := self._frames.next()) is not None:
            answers = checked(content)
            if not isinstance(answers, Answers):
                raise UnknownError(f"a reader sent a {type(answers).__name__}")
            yield answers

    def drop(self, request: ObservationRequest) -> None:
        """Wait no longer for the answer to a request."""
        self.requests.pop(request.ticket, None)

    def answered(self, ticket: int, *, read: bool) -> ObservationRequest | None:
        """Note an answer. Return its request, or None if the answer is no longer waited for."""
        request = self.requests.pop(ticket, None)
        if request is not None and read:
            self._knows[request.table.id] = ticket
        elif request is not None and request.previous is not None and request.known is not None:
            self._knows[request.table.id] = request.known
        return request

    def under_way(self) -> list[tuple[ObservationRequest, float]]:
        """Return the awaited requests that it is working on, with the seconds since it began each."""
        now = time.monotonic()
        return [
            (self.requests[work.ticket], now - work.at)
            for work in self._board.under_way()
            if work.ticket in self.requests
        ]

    def is_silent(self, seconds: float) -> bool:
        """Whether it has requests, and for so long has neither begun one nor answered. Then it is frozen."""
        return bool(self.requests) and not self.under_way() and time.monotonic() - self._heard_at > seconds

    def take_back_what_is_not_begun(self, *, before: int) -> list[ObservationRequest]:
        """Return the requests that it has not begun, and make it skip them. All tickets are less than `before`."""
        self._board.skip_before(before)
        begun = {work.ticket for work in self._board.under_way()}
        waiting = [request for ticket, request in self.requests.items() if ticket not in begun]
        for request in waiting:
            del self.requests[request.ticket]
        return waiting

    def take_back_all(self) -> list[ObservationRequest]:
        """Return every request that it has not answered."""
        requests = list(self.requests.values())
        self.requests.clear()
        return requests

    def kill(self) -> None:
        """Kill it. It may take a while to end if a storage blocks it."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Close its socket. It ends when it sees that."""
        self.channel.close()

    def is_gone(self) -> bool:
        """Whether the process has ended, without waiting for it."""
        return self._process.poll() is not None

    def how_it_ended(self) -> str:
        """Return, for people, how it ended."""
        try:
            code = self._process.wait(timeout=0.05)
        except subprocess.TimeoutExpired:
            return "it went silent"
        return f"signal {-code}" if code < 0 else f"exit code {code}"


# The reader processes: started when they are needed, and ended without waiting for them.

log = structlog.get_logger(__name__)

_FRUITLESS = 3
"""After so many processes in a row that ended without an answer the next one is started later."""

_REST_SECONDS = 2.0


class Children:
    """Every living process, and those that were killed and are not gone yet. Only the thread that keeps them
    uses it.
    """

    def __init__(
        self, *, stores: Sequence[StoreSettings], roots: Sequence[str], memory: int, command: Sequence[str], bell: int
    ) -> None:
        """`memory` is the limit of each process, in bytes. The descriptor `bell` ends `wait`, too."""
        self._stores = stores
        self._roots = roots
        self._memory = memory
        self._command = command
        self._selector = selectors.DefaultSelector()
        self._selector.register(bell, selectors.EVENT_READ)
        self._living: set[ReaderProcess] = set()
        self._dying: list[ReaderProcess] = []
        self._fruitless = 0
        self._rests_until = 0.0
        self._failing_since: float | None = None

    def __iter__(self) -> Iterator[ReaderProcess]:
        return iter(list(self._living))

    def start(self, *, threads: int) -> ReaderProcess | None:
        """Start a process. Return None if that fails, or if too many ended without an answer just now."""
        if time.monotonic() < self._rests_until:
            return None
        try:
            child = ReaderProcess(
                Hello(stores=self._stores, roots=self._roots, threads=threads, memory=self._memory),
                command=self._command,
            )
        except OSError as error:
            self._rest(str(error))
            return None
        self._living.add(child)
        self._selector.register(child.channel, selectors.EVENT_READ, child)
        return child

    def wait(self, seconds: float) -> list[ReaderProcess]:
        """Send what waits to be sent. Return the processes that have sent something, after `seconds` at most."""
        for child in self._living:
            self._send(child)
        return [cast(ReaderProcess, key.data) for key, _ in self._selector.select(seconds) if key.data is not None]

    def heard_of(self) -> None:
        """Note that a process has answered. So processes can be started."""
        self._fruitless = 0
        self._failing_since = None

    def failing_for(self) -> float:
        """Return for how many seconds no process could be started that answers, or 0."""
        return 0.0 if self._failing_since is None else time.monotonic() - self._failing_since

    def _rest(self, why: str) -> None:
        """Start no process for a moment."""
        now = time.monotonic()
        self._rests_until = now + _REST_SECONDS
        if self._failing_since is None:
            self._failing_since = now
            log.warning("readers_do_not_start", reason=why, again_seconds=_REST_SECONDS)

    def end(self, child: ReaderProcess) -> None:
        """Kill a process that is no longer needed, or that sent nonsense."""
        if child not in self._living:
            return
        self._living.discard(child)
        self._selector.unregister(child.channel)
        child.close()
        child.kill()
        self._dying.append(child)

    def died(self, child: ReaderProcess) -> None:
        """Note that a process ended by itself."""
        self._fruitless += not child.has_answered
        if self._fruitless >= _FRUITLESS:
            self._rest(f"{self._fruitless} in a row ended without an answer, the last one by {child.how_it_ended()}")
        self.end(child)

    def reap(self) -> bool:
        """Forget the killed processes that are gone by now. Return whether others are not."""
        self._dying = [child for child in self._dying if not child.is_gone()]
        return bool(self._dying)

    def end_all(self) -> None:
        """Kill every process."""
        for child in list(self._living):
            self.end(child)

    def _send(self, child: ReaderProcess) -> None:
        child.send()
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if child.has_more_to_send else 0)
        if self._selector.get_key(child.channel).events != events:
            self._selector.modify(child.channel, events, child)
