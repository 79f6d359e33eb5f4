"""uvicorn's HTTP/1.1 protocol that reports every phase of a connection to the admission. The admission may end it."""

from __future__ import annotations

import asyncio
import logging
import select
import time

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from lakewarden.service.http.guard.admission import Admission, Connection, Phase
from lakewarden.service.http.guard.strict import StrictConnection
from lakewarden.service.model.refusals import MALFORMED, Refusal

CONNECTION = "lakewarden.connection"
"""The key in the state of an ASGI scope for the connection of a request."""

ADMISSION = "lakewarden.admission"
"""The key in the state of an ASGI scope for the admission that took the connection."""

_READ_BYTES = 64 * 2**10

_SILENT = logging.getLogger("lakewarden.silent")  # the admission logs refusals, and how often
_SILENT.disabled = True


class WatchedProtocol(H11Protocol):
    """One connection, from the moment it was accepted."""

    def __init__(
        self,
        config: Config,
        state: ServerState,
        loop: asyncio.AbstractEventLoop,
        *,
        admission: Admission,
        sender: str,
    ) -> None:
        self.connection = Connection(sender=sender, since=time.monotonic(), leave=self._leave, speaks=self._speaks)
        self._admission = admission
        self._unwelcome = False
        self.introduction: asyncio.Task[None] | None = None
        super().__init__(config, state, {CONNECTION: self.connection, ADMISSION: admission}, loop)
        self.conn: StrictConnection = StrictConnection(self._seen)
        self.logger = _SILENT

    # -- what happens to the connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to read, in pieces small enough for many connections at the same time."""
        transport.max_size = _READ_BYTES  # type: ignore[attr-defined]
        super().connection_made(transport)
        if self._unwelcome:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop counting the connection. Cancel the task of a GET request that still waits for its answer."""
        self._admission.remove(self.connection)
        asks_in_vain = self.cycle is not None and not self.cycle.response_complete and self.scope["method"] == "GET"
        super().connection_lost(exc)
        if asks_in_vain and self.connection.task is not None:
            self.connection.task.cancel()

    def data_received(self, data: bytes) -> None:
        """Handle bytes that have come."""
        if self.connection.phase in (Phase.FIRST_BYTE, Phase.NEXT):
            self.connection.enters(Phase.HEAD, time.monotonic())
        super().data_received(data)

    def pause_writing(self) -> None:
        """Note that the client does not read its answer as fast as it comes."""
        super().pause_writing()
        self._admission.unread(self.connection, self.transport.get_write_buffer_size(), time.monotonic())

    def resume_writing(self) -> None:
        """Note that the client has read enough of its answer."""
        super().resume_writing()
        self._admission.unread(self.connection, 0, time.monotonic())

    def on_response_complete(self) -> None:
        """Wait for the rest of the body, or for the next request."""
        self._admission.answered(self.connection)
        if self.conn.their_state is h11.SEND_BODY:
            self.connection.enters(Phase.REST, self.connection.since)
        else:
            self.connection.enters(Phase.NEXT, time.monotonic())
        super().on_response_complete()

    def shutdown(self) -> None:
        """End after the answer, or at once if no answer is awaited."""
        try:
            super().shutdown()
        except h11.LocalProtocolError:
            self.transport.abort()

    # -- what the admission judges

    def _seen(self, event: h11.Event) -> Refusal | None:
        now = time.monotonic()
        match event:
            case h11.Request():
                self.connection.enters(Phase.BODY, now)
                path = event.target.partition(b"?")[0]
                return self._admission.takes(self.connection, path, under_way=len(self.tasks), now=now)
            case h11.EndOfMessage():
                answered = self.cycle is not None and self.conn.our_state is h11.DONE
                self.connection.enters(Phase.NEXT if answered else Phase.ANSWER, now)
        return None

    def send_400_response(self, msg: str) -> None:
        """Refuse a request that cannot be understood, or that the admission does not take."""
        self._admission.end(self.connection, self.conn.refusal or MALFORMED)

    # -- the end

    def _speaks(self) -> bool:
        if self.transport is None:  # a connection that was accepted in this turn had no time to send
            return True
        waiting = select.poll()
        waiting.register(self.transport.get_extra_info("socket").fileno(), select.POLLIN)
        return any(event & select.POLLIN and not event & select.POLLHUP for _, event in waiting.poll(0))

    def _leave(self, refusal: Refusal) -> None:
        transport = self.transport
        if transport is None:  # accepted, and not yet connected to its transport, or in the middle of the handshake
            self._unwelcome = True
            if self.introduction is not None:
                self.introduction.cancel()
            return
        silent = self.connection.phase in (Phase.FIRST_BYTE, Phase.REST, Phase.NEXT)
        begun = self._interrupt()
        tls = transport.get_extra_info("sslcontext") is not None
        # With TLS the buffer may hold what ends the handshake, if the request came with that. Writing sends both.
        if not silent and not begun and (tls or not transport.get_write_buffer_size()):
            transport.write(refusal.answer)
        if transport.get_write_buffer_size() or (tls and silent):
            transport.abort()  # a client that does not read would keep a connection that is only closed
            return
        transport.close()
        if tls:  # the end of TLS waits for the client, a second at most
            self._admission.remove(self.connection)

    def _interrupt(self) -> bool:
        """Interrupt the answer of the application. Return whether a part of one has been sent."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            return False
        cycle.disconnected = True
        cycle.message_event.set()
        self.flow.resume_writing()
        return bool(cycle.response_started)
