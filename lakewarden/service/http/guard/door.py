"""The door of one port: who is inside, since when, with how many bytes, and who has to leave for whom. No I/O."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from lakewarden.service.config.http_limits import LimitSettings
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
    Refusal,
    Turned,
)

_UNHURRIED_SECONDS = 1.0
"""A body, or an answer, that takes longer may have to make room for another client."""


class Phase(StrEnum):
    """What a connection waits for."""

    FIRST_BYTE = "first byte"
    HEAD = "head"
    BODY = "body"
    ANSWER = "answer"
    """Ours: no client is made to leave because we are slow."""
    REST = "rest"
    """It was answered already; the body goes on."""
    NEXT = "next"


@dataclass(eq=False, slots=True)
class Visitor:
    """One connection. `leave` ends it with a refusal, `task` makes its answer. Times are monotonic seconds.

    `speaks` tells whether something has come that we have not read yet: whoever speaks is not silent, but we are slow.

    `body_bytes` are kept of its body, `unread_bytes` of the answer are not taken.
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
        """The bytes that it occupies."""
        return self.body_bytes + self.unread_bytes


class Door:
    """Only the port's loop uses it."""

    def __init__(self, limits: LimitSettings, *, turned: Turned, always: Collection[str] = ()) -> None:
        """Open it. `always` are the paths that are answered however often they were asked for."""
        self._limits = limits
        self._always = frozenset(path.encode() for path in always)
        self._turned = turned
        self._visitors: set[Visitor] = set()
        self._by_sender: Counter[str] = Counter()
        self._held = 0
        self._rates = Rates(per_second=limits.requests_by_sender)

    def takes(self, visitor: Visitor, path: bytes, *, under_way: int, now: float) -> Refusal | None:
        """Return why a request is not taken while so many others are under way; None where it is."""
        if path in self._always:
            return None
        if not self._rates.take(visitor.sender, now):
            return RATE
        return REQUESTS if under_way >= self._limits.connections else None

    def room_for(self, sender: str, now: float) -> Refusal | None:
        """Make room for one more connection. Return why there is none; None where there is."""
        if self._by_sender[sender] >= self._limits.connections_by_sender:
            own = [visitor for visitor in self._visitors if visitor.sender == sender]
            return None if self.make_room(now, own) else CONNECTIONS_BY_SENDER
        if len(self._visitors) >= self._limits.connections:
            most, _ = self._by_sender.most_common(1)[0]
            theirs = [visitor for visitor in self._visitors if visitor.sender == most]
            return None if self.make_room(now, theirs) or self.make_room(now) else CONNECTIONS
        return None

    def make_room(self, now: float, among: Iterable[Visitor] | None = None) -> bool:
        """Close the connection that has kept us waiting for the longest; return whether there was one."""
        unhurried = now - _UNHURRIED_SECONDS
        candidates = [v for v in (self._visitors if among is None else among) if _may_go(v, unhurried)]
        if not candidates:
            return False
        candidates.sort(key=lambda visitor: (visitor.phase is Phase.BODY, visitor.since))
        slowest = next((visitor for visitor in candidates if not visitor.speaks()), candidates[0])
        self.turn_out(slowest, MADE_ROOM)
        self.left(slowest)
        return True

    def entered(self, visitor: Visitor) -> None:
        """Count a connection in."""
        self._visitors.add(visitor)
        self._by_sender[visitor.sender] += 1

    def left(self, visitor: Visitor) -> None:
        """Count a connection out; a second time is nothing."""
        if visitor not in self._visitors:
            return
        self._visitors.remove(visitor)
        self._held -= visitor.held
        visitor.body_bytes = visitor.unread_bytes = 0
        self._by_sender[visitor.sender] -= 1
        if not self._by_sender[visitor.sender]:
            del self._by_sender[visitor.sender]

    def turn_out(self, visitor: Visitor, refusal: Refusal) -> None:
        """End a connection, and tell of it."""
        self._turned(refusal, visitor.sender)
        visitor.leave(refusal)

    def keeps_body(self, visitor: Visitor, more: int) -> None:
        """Note that so many bytes more of a visitor's body are kept; where that is too much, the largest leaves."""
        self._occupy(visitor, body=visitor.body_bytes + more, unread=visitor.unread_bytes)

    def answered(self, visitor: Visitor) -> None:
        """Note that a request was answered: its body is forgotten."""
        self._occupy(visitor, body=0, unread=visitor.unread_bytes)

    def unread(self, visitor: Visitor, count: int, now: float) -> None:
        """Note how many bytes of an answer wait for the client; none once it has caught up."""
        visitor.unread_since = min(visitor.unread_since, now) if count else math.inf
        self._occupy(visitor, body=visitor.body_bytes, unread=count)

    def sweep(self, now: float) -> None:
        """End every connection whose time is over."""
        for visitor in list(self._visitors):
            if visitor.unread_bytes:
                refusal, since, seconds = UNREAD, visitor.unread_since, self._limits.unread.total_seconds()
            else:
                refusal, seconds = self._patience(visitor.phase)
                since = visitor.since
            if now - since > seconds:
                self.turn_out(visitor, refusal)

    def _patience(self, phase: Phase) -> tuple[Refusal, float]:
        limits = self._limits
        match phase:
            case Phase.FIRST_BYTE:
                return NO_FIRST_BYTE, limits.first_byte.total_seconds()
            case Phase.HEAD:
                return SLOW_HEAD, limits.head.total_seconds()
            case Phase.BODY | Phase.REST:
                return SLOW_BODY, limits.body.total_seconds()
            case Phase.NEXT:
                return NO_FIRST_BYTE, limits.idle.total_seconds() + 1  # the server itself closes it before, in peace
            case Phase.ANSWER:
                return UNREAD, math.inf
            case _:
                assert_never(phase)

    def _occupy(self, visitor: Visitor, *, body: int, unread: int) -> None:
        if visitor not in self._visitors:
            return
        self._held += body + unread - visitor.held
        visitor.body_bytes, visitor.unread_bytes = body, unread
        while self._held > self._limits.bodies:
            largest = max(self._unfinished(visitor), key=lambda one: one.held)
            self.turn_out(largest, BODIES)
            self.left(largest)

    def _unfinished(self, newest: Visitor) -> Iterator[Visitor]:
        yield newest
        for visitor in self._visitors:
            if visitor.phase is Phase.BODY or visitor.unread_bytes:
                yield visitor


def _may_go(visitor: Visitor, unhurried: float) -> bool:
    match visitor.phase:
        case Phase.FIRST_BYTE | Phase.HEAD | Phase.REST | Phase.NEXT:
            return True
        case Phase.BODY:
            return visitor.since < unhurried
        case Phase.ANSWER:
            return visitor.unread_since < unhurried
        case _:
            assert_never(visitor.phase)
