"""Which connections one port admits, and which it closes: it counts them, their time and their bytes. No I/O."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from lakewarden.service.config.daemon.http_limits import LimitSettings
from lakewarden.service.http.guard.senders import Rates
from lakewarden.service.model.refusals import (
    BODIES,
    CONNECTIONS,
    CONNECTIONS_BY_SENDER,
    MADE_ROOM,
    NO_FIRST_BYTE,
    RATE,
    REQUESTS,
    SLOW_BODY,
    SLOW_HEAD,
    UNREAD,
    OnRefusal,
    Refusal,
)

_UNHURRIED_SECONDS = 1.0
"""If a body or an answer takes longer, its connection may be closed to make room for another client."""


class Phase(StrEnum):
    """What a connection waits for."""

    FIRST_BYTE = "first byte"
    HEAD = "head"
    BODY = "body"
    ANSWER = "answer"
    """The server makes the answer. No connection is closed because the server is slow."""
    REST = "rest"
    """The request was answered already. Its body still comes."""
    NEXT = "next"


@dataclass(eq=False, slots=True)
class Connection:
    """One connection. `leave` ends it with a refusal. `task` makes its answer. Times are monotonic seconds.

    `speaks` tells whether bytes have come that the server has not read yet. Then the server is slow, not the client.

    `body_bytes` are the bytes of its body that are kept. `unread_bytes` are the bytes of the answer that the client has
    not taken yet.
    """

    sender: str
    since: float
    leave: Callable[[Refusal], None]
    phase: Phase = Phase.FIRST_BYTE
    body_bytes: int = 0
    unread_bytes: int = 0
    unread_since: float = math.inf
    task: asyncio.Task[object] | None = None
    speaks: Callable[[], bool] = lambda: False

    def enters(self, phase: Phase, now: float) -> None:
        """Begin to wait for something else."""
        self.phase, self.since = phase, now

    @property
    def held(self) -> int:
        """The bytes that the connection occupies in memory."""
        return self.body_bytes + self.unread_bytes


class Admission:
    """Admits the connections of one port within its limits. Only the loop of the port uses it."""

    def __init__(self, limits: LimitSettings, *, on_refusal: OnRefusal, always: Collection[str] = ()) -> None:
        """Begin without connections. `always` are the paths that have no limit of requests."""
        self._limits = limits
        self._always = frozenset(path.encode() for path in always)
        self._on_refusal = on_refusal
        self._connections: set[Connection] = set()
        self._by_sender: Counter[str] = Counter()
        self._held = 0
        self._rates = Rates(per_second=limits.requests_by_sender)

    def takes(self, connection: Connection, path: bytes, *, under_way: int, now: float) -> Refusal | None:
        """Return why a request is refused while so many others are under way. None if it is taken."""
        if path in self._always:
            return None
        if not self._rates.take(connection.sender, now):
            return RATE
        return REQUESTS if under_way >= self._limits.connections else None

    def room_for(self, sender: str, now: float) -> Refusal | None:
        """Make room for one more connection. Return why there is none. None if there is room."""
        if self._by_sender[sender] >= self._limits.connections_by_sender:
            own = [connection for connection in self._connections if connection.sender == sender]
            return None if self.make_room(now, own) else CONNECTIONS_BY_SENDER
        if len(self._connections) >= self._limits.connections:
            most, _ = self._by_sender.most_common(1)[0]
            theirs = [connection for connection in self._connections if connection.sender == most]
            return None if self.make_room(now, theirs) or self.make_room(now) else CONNECTIONS
        return None

    def make_room(self, now: float, among: Iterable[Connection] | None = None) -> bool:
        """Close the connection that the server has waited for longest. Return whether there was one."""
        unhurried = now - _UNHURRIED_SECONDS
        candidates = [v for v in (self._connections if among is None else among) if _may_go(v, unhurried)]
        if not candidates:
            return False
        candidates.sort(key=lambda connection: (connection.phase is Phase.BODY, connection.since))
        slowest = next((connection for connection in candidates if not connection.speaks()), candidates[0])
        self.end(slowest, MADE_ROOM)
        self.remove(slowest)
        return True

    def add(self, connection: Connection) -> None:
        """Count a connection that was accepted."""
        self._connections.add(connection)
        self._by_sender[connection.sender] += 1

    def remove(self, connection: Connection) -> None:
        """Stop counting a connection. A second call does nothing."""
        if connection not in self._connections:
            return
        self._connections.remove(connection)
        self._held -= connection.held
        connection.body_bytes = connection.unread_bytes = 0
        self._by_sender[connection.sender] -= 1
        if not self._by_sender[connection.sender]:
            del self._by_sender[connection.sender]

    def end(self, connection: Connection, refusal: Refusal) -> None:
        """End a connection and report it."""
        self._on_refusal(refusal, connection.sender)
        connection.leave(refusal)

    def keeps_body(self, connection: Connection, more: int) -> None:
        """Note that so many bytes more of a connection's body are kept. If that is too much, close the largest one."""
        self._occupy(connection, body=connection.body_bytes + more, unread=connection.unread_bytes)

    def answered(self, connection: Connection) -> None:
        """Note that a request was answered: its body is forgotten."""
        self._occupy(connection, body=0, unread=connection.unread_bytes)

    def unread(self, connection: Connection, count: int, now: float) -> None:
        """Note how many bytes of an answer the client has not read. 0 once it has read all of them."""
        connection.unread_since = min(connection.unread_since, now) if count else math.inf
        self._occupy(connection, body=connection.body_bytes, unread=count)

    def sweep(self, now: float) -> None:
        """End every connection that has waited for too long in its phase."""
        for connection in list(self._connections):
            if connection.unread_bytes:
                refusal, since, seconds = UNREAD, connection.unread_since, self._limits.unread.total_seconds()
            else:
                refusal, seconds = self._timeout(connection.phase)
                since = connection.since
            if now - since > seconds:
                self.end(connection, refusal)

    def _timeout(self, phase: Phase) -> tuple[Refusal, float]:
        limits = self._limits
        match phase:
            case Phase.FIRST_BYTE:
                return NO_FIRST_BYTE, limits.first_byte.total_seconds()
            case Phase.HEAD:
                return SLOW_HEAD, limits.head.total_seconds()
            case Phase.BODY | Phase.REST:
                return SLOW_BODY, limits.body.total_seconds()
            case Phase.NEXT:
                return NO_FIRST_BYTE, limits.idle.total_seconds() + 1  # the server itself closes it before that
            case Phase.ANSWER:
                return UNREAD, math.inf
            case _:
                assert_never(phase)

    def _occupy(self, connection: Connection, *, body: int, unread: int) -> None:
        if connection not in self._connections:
            return
        self._held += body + unread - connection.held
        connection.body_bytes, connection.unread_bytes = body, unread
        while self._held > self._limits.bodies:
            largest = max(self._unfinished(connection), key=lambda one: one.held)
            self.end(largest, BODIES)
            self.remove(largest)

    def _unfinished(self, newest: Connection) -> Iterator[Connection]:
        yield newest
        for connection in self._connections:
            if connection.phase is Phase.BODY or connection.unread_bytes:
                yield connection


def _may_go(connection: Connection, unhurried: float) -> bool:
    match connection.phase:
        case Phase.FIRST_BYTE | Phase.HEAD | Phase.REST | Phase.NEXT:
            return True
        case Phase.BODY:
            return connection.since < unhurried
        case Phase.ANSWER:
            return connection.unread_since < unhurried
        case _:
            assert_never(connection.phase)
