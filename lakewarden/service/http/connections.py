"""The connections of one port: how many there are, how long they wait for their clients, and the bytes that they hold.

uvicorn's `limit_concurrency` refuses requests, and ends no connection: clients that send nothing, or one byte at a
time, would keep all others out. `timeout_keep_alive` begins after an answer, and never ends one that is not read. So
the connections that wait for their clients are ended here, by what asyncio and ASGI offer.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import timedelta

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lakewarden.service.model.problems import BODIES, LATE, MADE_ROOM, OnRefusal

HEAD_BYTES = 16 * 2**10
"""The limit for the headers of a request, in bytes."""

CONNECTION = "lakewarden.connection"
"""The key in the state of an ASGI scope for the connection of a request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortLimits:
    """The limits of a port for its clients."""

    connections: int = 512
    """Connections at a time. If there is no room, the one that has waited for its client for longest is ended. So
    writers find room whatever others keep open.
    """

    bodies: int = 64 * 2**20
    """Bytes that all requests, and all answers that are not read, may occupy together: eight of the largest hooks.
    Beyond it the connection with the most is ended.
    """

    patience: timedelta = timedelta(seconds=30)
    """A connection is ended if the server waits for its client for this long: for a request line with its headers, for
    a body, for the reading of an answer, or for the next request.
    """


@dataclass(eq=False, slots=True, kw_only=True)
class Connection:
    """One connection. It waits for its client `since` a moment, in monotonic seconds, if no request is `at_work`.

    `opening` is the task that makes its transport, and waits for the handshake of TLS. `kept_bytes` are those of its
    body that are kept.
    """

    client: str
    since: float
    opening: asyncio.Task[None] | None = None
    transport: asyncio.WriteTransport | None = None
    at_work: int = 0
    kept_bytes: int = 0

    @property
    def held_bytes(self) -> int:
        """The bytes of its body that are kept, and of its answers that the client has not taken."""
        return self.kept_bytes + _unsent(self.transport)

    @property
    def is_over(self) -> bool:
        """Whether it has ended, and all of its answers are taken."""
        if self.transport is None:
            return self.opening is not None and self.opening.done()
        return self.transport.is_closing() and not _unsent(self.transport)


def _unsent(transport: asyncio.WriteTransport | None) -> int:
    try:
        return 0 if transport is None else transport.get_write_buffer_size()
    except AttributeError:  # asyncio's transport of TLS forgets its protocol when it is closed a second time
        return 0


class Connections:
    """The connections of one port within its limits. Only the loop of the port uses it."""

    def __init__(self, limits: PortLimits, *, on_refusal: OnRefusal) -> None:
        self._limits = limits
        self._on_refusal = on_refusal
        self._open: set[Connection] = set()

    def add(self, connection: Connection) -> None:
        """Count a connection that was accepted."""
        self._open.add(connection)

    def has_room(self, now: float) -> bool:
        """Whether there is room for one more. If not, a connection that waits for its client makes room."""
        if len(self._open) >= self._limits.connections:
            self.sweep(now)
        return len(self._open) < self._limits.connections or self.make_room()

    def make_room(self) -> bool:
        """End the connection that has waited for its client for longest. Return whether there was one."""
        waiting = [connection for connection in self._open if not connection.at_work]
        if waiting:
            self._end(min(waiting, key=lambda connection: connection.since), MADE_ROOM)
        return bool(waiting)

    def sweep(self, now: float) -> None:
        """Forget the connections that are over, and end those that are late or hold too many bytes."""
        self._open = {connection for connection in self._open if not connection.is_over}
        earliest = now - self._limits.patience.total_seconds()
        for late in [connection for connection in self._open if not connection.at_work and connection.since < earliest]:
            self._end(late, LATE)
        while sum(connection.held_bytes for connection in self._open) > self._limits.bodies:
            self._end(max(self._open, key=lambda connection: connection.held_bytes), BODIES)

    def _end(self, connection: Connection, kind: str) -> None:
        """End a connection at once. A client that does not read would not read a farewell either."""
        self._open.discard(connection)
        self._on_refusal(kind, connection.client)
        if connection.transport is not None:
            connection.transport.abort()
        elif connection.opening is not None:
            connection.opening.cancel()


class WatchedRequests:
    """Middleware: notes when a connection waits for its client, and when the server is at work for it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on. Its client has a new time for its body, for each part of its answer, and after it."""
        connection: Connection = scope["state"][CONNECTION]
        is_whole = False

        async def received() -> Message:
            nonlocal is_whole
            if is_whole:  # this waits for the end of the connection
                return await receive()
            connection.at_work -= 1
            try:
                message = await receive()
            finally:
                connection.at_work += 1
            is_whole = not message.get("more_body", False)
            return message

        async def sent(message: Message) -> None:
            connection.since = time.monotonic()
            connection.at_work -= 1
            try:
                await send(message)
            finally:
                connection.at_work += 1

        connection.since = time.monotonic()
        connection.at_work += 1
        try:
            await self._app(scope, received, sent)
        finally:
            connection.at_work -= 1
            connection.kept_bytes = 0
            connection.since = time.monotonic()
