"""Who connects is let in by the door. asyncio would accept everybody, and tell of each failure with a traceback."""

from __future__ import annotations

import asyncio
import errno
import socket
import time
from collections.abc import Callable
from contextlib import suppress

from lakewarden.service.http.guard.door import Door
from lakewarden.service.http.guard.protocol import WatchedProtocol
from lakewarden.service.http.guard.senders import sender_of
from lakewarden.service.model.refusals import DESCRIPTORS, Refusal, Turned

_AT_ONCE = 8
"""Between so many newcomers those who came before are heard, so that a probe has spoken before it could have to make
room for a crowd.
"""

_REST_SECONDS = 0.05
_SWEEP_SECONDS = 0.25
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Acceptor:
    """Accepts connections of one listening socket on one loop, from `open` until `close`."""

    def __init__(
        self,
        listening: socket.socket,
        *,
        loop: asyncio.AbstractEventLoop,
        door: Door,
        turned: Turned,
        protocol: Callable[[str], WatchedProtocol],
    ) -> None:
        """`protocol` returns the protocol of a connection of a sender."""
        self._listening = listening
        self._loop = loop
        self._door = door
        self._turned = turned
        self._protocol = protocol
        self._is_open = False
        self._introductions: set[asyncio.Task[None]] = set()

    def open(self) -> None:
        """Begin."""
        self._listening.settimeout(0)
        self._is_open = True
        self._listen()
        self._sweep()

    def close(self) -> None:
        """Accept nobody any more."""
        if self._is_open:
            self._is_open = False
            if (descriptor := self._listening.fileno()) >= 0:  # a loop that comes late finds it closed
                self._loop.remove_reader(descriptor)

    def _listen(self) -> None:
        if self._is_open:
            self._loop.add_reader(self._listening.fileno(), self._accept)

    def _sweep(self) -> None:
        self._door.sweep(time.monotonic())
        self._loop.call_later(_SWEEP_SECONDS, self._sweep)  # until the loop ends: what is open then is to end, too

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection, peer = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionError):
                return
            except OSError as trouble:
                if trouble.errno not in _EXHAUSTED:
                    raise
                self._rest()
                return
            self._welcome(connection, sender_of(str(peer[0])))

    def _rest(self) -> None:
        """Wait until a file is closed. Whoever keeps us waiting gives theirs up."""
        self._turned(DESCRIPTORS, "")
        self._door.make_room(time.monotonic())
        self._loop.remove_reader(self._listening.fileno())
        self._loop.call_later(_REST_SECONDS, self._listen)

    def _welcome(self, connection: socket.socket, sender: str) -> None:
        connection.settimeout(0)
        refusal = self._door.room_for(sender, time.monotonic())
        if refusal is not None:
            self._refuse(connection, refusal, sender)
            return
        protocol = self._protocol(sender)
        self._door.entered(protocol.visitor)
        task = self._loop.create_task(self._introduce(connection, protocol))
        self._introductions.add(task)
        task.add_done_callback(self._introductions.discard)

    def _refuse(self, connection: socket.socket, refusal: Refusal, sender: str) -> None:
        self._turned(refusal, sender)
        with suppress(OSError):
            connection.send(refusal.answer)
        connection.close()

    async def _introduce(self, connection: socket.socket, protocol: WatchedProtocol) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: protocol, connection)
        except OSError:  # it has gone already
            connection.close()
            self._door.left(protocol.visitor)
