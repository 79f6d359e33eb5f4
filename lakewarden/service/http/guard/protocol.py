"""uvicorn's HTTP/1.1 protocol with a watch: every phase of a connection is known to the door, which may end it."""

from __future__ import annotations

import asyncio
import logging
import select
import time

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from lakewarden.service.http.guard.door import Door, Phase, Visitor
from lakewarden.service.http.guard.strict import StrictConnection
from lakewarden.service.model.refusals import MALFORMED, Refusal

VISITOR = "lakewarden.visitor"
"""Where an ASGI scope's state names the connection that a request came by, and ..."""

DOOR = "lakewarden.door"
"""... the door that it came through."""

_READ_BYTES = 64 * 2**10

_NOBODY = logging.getLogger("lakewarden.nobody")  # the door tells what is to be told, and how often
_NOBODY.disabled = True


class WatchedProtocol(H11Protocol):
    """One connection, from the moment it was accepted."""

    def __init__(
        self, config: Config, state: ServerState, loop: asyncio.AbstractEventLoop, *, door: Door, sender: str
    ) -> None:
        self.visitor = Visitor(sender=sender, since=time.monotonic(), leave=self._leave, speaks=self._speaks)
        self._door = door
        self._unwelcome = False
        super().__init__(config, state, {VISITOR: self.visitor, DOOR: door}, loop)
        self.conn: StrictConnection = StrictConnection(self._seen)
        self.logger = _NOBODY

    # -- what happens to the connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to read, in pieces that let many connections have some at the same time."""
        transport.max_size = _READ_BYTES  # type: ignore[attr-defined]
        super().connection_made(transport)
        if self._unwelcome:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave the door."""
        self._door.left(self.visitor)
        asks_in_vain = self.cycle is not None and not self.cycle.response_complete and self.scope["method"] == "GET"
        super().connection_lost(exc)
        if asks_in_vain and self.visitor.task is not None:
            self.visitor.task.cancel()

    def data_received(self, data: bytes) -> None:
        """Take what came."""
        if self.visitor.phase in (Phase.FIRST_BYTE, Phase.NEXT):
            self.visitor.enters(Phase.HEAD, time.monotonic())
        super().data_received(data)

    def pause_writing(self) -> None:
        """Note that the client does not take its answer as fast as it comes."""
        super().pause_writing()
        self._door.unread(self.visitor, self.transport.get_write_buffer_size(), time.monotonic())

    def resume_writing(self) -> None:
        """Note that the client has caught up."""
        super().resume_writing()
        self._door.unread(self.visitor, 0, time.monotonic())

    def on_response_complete(self) -> None:
        """Wait for the rest of the body, or for the next request."""
        self._door.answered(self.visitor)
        if self.conn.their_state is h11.SEND_BODY:
            self.visitor.enters(Phase.REST, self.visitor.since)
        else:
            self.visitor.enters(Phase.NEXT, time.monotonic())
        super().on_response_complete()

    def shutdown(self) -> None:
        """End when the answer is given; at once where none is awaited."""
        try:
            super().shutdown()
        except h11.LocalProtocolError:
            self.transport.abort()

    # -- what is judged

    def _seen(self, event: h11.Event) -> Refusal | None:
        now = time.monotonic()
        match event:
            case h11.Request():
                self.visitor.enters(Phase.BODY, now)
                path = event.target.partition(b"?")[0]
                return self._door.takes(self.visitor, path, under_way=len(self.tasks), now=now)
            case h11.EndOfMessage():
                answered = self.cycle is not None and self.conn.our_state is h11.DONE
                self.visitor.enters(Phase.NEXT if answered else Phase.ANSWER, now)
        return None

    def send_400_response(self, msg: str) -> None:
        """Refuse what cannot be understood, or is not taken."""
        self._door.turn_out(self.visitor, self.conn.refusal or MALFORMED)

    # -- its end

    def _speaks(self) -> bool:
        if self.transport is None:  # who was accepted in this turn has had no time yet
            return True
        waiting = select.poll()
        waiting.register(self.transport.get_extra_info("socket").fileno(), select.POLLIN)
        return any(event & select.POLLIN and not event & select.POLLHUP for _, event in waiting.poll(0))

    def _leave(self, refusal: Refusal) -> None:
        transport = self.transport
        if transport is None:  # accepted, and not yet connected to its transport
            self._unwelcome = True
            return
        silent = self.visitor.phase in (Phase.FIRST_BYTE, Phase.REST, Phase.NEXT)
        begun = self._interrupt()
        if not silent and not begun and not transport.get_write_buffer_size():
            transport.write(refusal.answer)
        if transport.get_write_buffer_size():
            transport.abort()  # a client that does not read would keep a connection that is only closed
        else:
            transport.close()

    def _interrupt(self) -> bool:
        """Let the application's answer come to nothing; return whether a part of one has been sent."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            return False
        cycle.disconnected = True
        cycle.message_event.set()
        self.flow.resume_writing()
        return bool(cycle.response_started)
