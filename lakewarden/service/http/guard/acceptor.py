"""Accepts connections if the admission has room. asyncio would accept all, and log each failure with a traceback."""

from __future__ import annotations

import asyncio
import errno
import socket
import time
from collections.abc import Callable
from contextlib import suppress

from lakewarden.service.http.guard.admission import Admission
from lakewarden.service.http.guard.certificates import Certificates
from lakewarden.service.http.guard.protocol import WatchedProtocol
from lakewarden.service.http.guard.senders import sender_of
from lakewarden.service.model.refusals import DESCRIPTORS, OnRefusal, Refusal

_AT_ONCE = 8
"""After so many new connections the older ones are read. So a probe can send its request before it could be closed to
make room for new connections.
"""

_REST_SECONDS = 0.05
_SWEEP_SECONDS = 0.25
_SHUTDOWN_SECONDS = 1.0
"""How long the end of a TLS connection waits for its client."""

_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Acceptor:
    """Accepts connections of one listening socket on one loop, from `open` until `close`."""

    def __init__(
        self,
        listening: socket.socket,
        *,
        loop: asyncio.AbstractEventLoop,
        admission: Admission,
        on_refusal: OnRefusal,
        protocol: Callable[[str], WatchedProtocol],
        certificates: Certificates | None = None,
        handshake_seconds: float = 5.0,
    ) -> None:
        """`protocol` returns the protocol of a connection of a sender. With `certificates` connections speak TLS."""
        self._certificates = certificates
        self._handshake_seconds = handshake_seconds
        self._listening = listening
        self._loop = loop
        self._admission = admission
        self._on_refusal = on_refusal
        self._protocol = protocol
        self._is_open = False
        self._introductions: set[asyncio.Task[None]] = set()

    def open(self) -> None:
        """Begin to accept."""
        self._listening.settimeout(0)
        self._is_open = True
        self._listen()
        self._sweep()

    def close(self) -> None:
        """Accept no more connections."""
        if self._is_open:
            self._is_open = False
            if (descriptor := self._listening.fileno()) >= 0:  # if the loop was late, the socket is closed already
                self._loop.remove_reader(descriptor)

    def _listen(self) -> None:
        if self._is_open:
            self._loop.add_reader(self._listening.fileno(), self._accept)

    def _sweep(self) -> None:
        self._admission.sweep(time.monotonic())
        # until the loop ends, because connections that are open then must end, too
        self._loop.call_later(_SWEEP_SECONDS, self._sweep)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection, peer = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                self._rest()
                return
            self._welcome(connection, sender_of(str(peer[0])))

    def _rest(self) -> None:
        """Wait until a file is closed. The connection that the server has waited for longest is closed."""
        self._on_refusal(DESCRIPTORS, "")
        self._admission.make_room(time.monotonic())
        self._loop.remove_reader(self._listening.fileno())
        self._loop.call_later(_REST_SECONDS, self._listen)

    def _welcome(self, connection: socket.socket, sender: str) -> None:
        connection.settimeout(0)
        refusal = self._admission.room_for(sender, time.monotonic())
        if refusal is not None:
            self._refuse(connection, refusal, sender)
            return
        protocol = self._protocol(sender)
        self._admission.add(protocol.connection)
        task = self._loop.create_task(self._introduce(connection, protocol))
        protocol.introduction = task
        self._introductions.add(task)
        task.add_done_callback(lambda done: self._introduced(done, connection, protocol))

    def _refuse(self, connection: socket.socket, refusal: Refusal, sender: str) -> None:
        self._on_refusal(refusal, sender)
        with suppress(OSError):
            connection.send(refusal.answer)
        connection.close()

    async def _introduce(self, connection: socket.socket, protocol: WatchedProtocol) -> None:
        context = None if self._certificates is None else self._certificates.context()
        handshake, shutdown = (None, None) if context is None else (self._handshake_seconds, _SHUTDOWN_SECONDS)
        try:
            await self._loop.connect_accepted_socket(
                lambda: protocol,
                connection,
                ssl=context,
                ssl_handshake_timeout=handshake,
                ssl_shutdown_timeout=shutdown,
            )
        except OSError:  # the client has gone already, or speaks no TLS
            connection.close()
            self._admission.remove(protocol.connection)

    def _introduced(self, task: asyncio.Task[None], connection: socket.socket, protocol: WatchedProtocol) -> None:
        self._introductions.discard(task)
        if task.cancelled():  # its connection had to make room before it was ready
            connection.close()
            self._admission.remove(protocol.connection)
