"""Streams of events (server-sent events). A client that does not read costs its socket's buffer, and is let go."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from starlette.concurrency import run_in_threadpool

from lakewarden.executors.progress import RunProgress
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import RunId
from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.events.feed import Feed, FeedChange
from lakewarden.service.http.answers import Answer
from lakewarden.service.http.live.bodies import event_bodies
from lakewarden.service.http.live.runs import LiveRuns

STREAMS = 64
"""So many clients follow the events of one daemon at a time."""

STREAMS_BY_SENDER = 16
"""So many of them come from one address."""

BEAT_SECONDS = 15.0
"""After so long without an event a comment is sent. Proxies keep the connection open, and a dead client is noticed."""

PROGRESS_SECONDS = 1.0
"""How often the progress of the runs is compared, and their callers are identified again."""

_RETRY_MS = 3000


@dataclass(frozen=True, kw_only=True, slots=True)
class Follower:
    """One client. `admits` says whether it may see a change and asked for it. `after` is the number of the last change
    that it has. None: it begins now. `lost`: its number is not of this daemon. `may_stay` returns why it must go.
    """

    admits: Callable[[FeedChange], bool]
    may_stay: Callable[[], Awaitable[str | None]]
    after: int | None = None
    lost: bool = False


class Streams:
    """The clients that follow. Only the loop of the port uses it, but for the signal of the feed."""

    def __init__(self, plane: ControlPlane, feed: Feed, live: LiveRuns) -> None:
        self._plane = plane
        self._feed = feed
        self._live = live
        self._by_sender: Counter[str] = Counter()
        self._news: set[asyncio.Event] = set()
        self._signalled = False
        self._ticking: asyncio.Task[None] | None = None
        self._doing: dict[RunId, RunProgress] = {}

    def full(self, sender: str) -> str | None:
        """Return why one more client has no place, or None if it has one."""
        if self._by_sender.total() >= STREAMS:
            return f"{STREAMS} clients follow the events already"
        if self._by_sender[sender] >= STREAMS_BY_SENDER:
            return f"{STREAMS_BY_SENDER} clients from this address follow the events already"
        return None

    async def follow(self, sender: str, follower: Follower) -> AsyncIterator[bytes]:
        """Yield the events of a client, for as long as it stays."""
        if (full := self.full(sender)) is not None:  # many came at once
            yield _said("end", reason=full)
            return
        news = asyncio.Event()
        self._by_sender[sender] += 1
        self._news.add(news)
        end = self._feed.watch(self._signal_from(asyncio.get_running_loop()))
        self._tick()
        try:
            async for chunk in self._chunks(follower, news):
                yield chunk
        finally:
            end()
            self._news.discard(news)
            self._by_sender[sender] -= 1
            if not self._by_sender[sender]:
                del self._by_sender[sender]

    async def _chunks(self, follower: Follower, news: asyncio.Event) -> AsyncIterator[bytes]:
        at = self._feed.newest if follower.after is None else follower.after
        yield f"retry: {_RETRY_MS}\n\n".encode()
        if follower.lost:
            yield _said("reset", reason="the event is not of this daemon, or not kept any more: read the lists again")
            at = self._feed.newest
        loop = asyncio.get_running_loop()
        silent, judged = 0.0, loop.time()
        while True:
            news.clear()
            if self._feed.closed:
                yield _said("end", reason="the daemon ends")
                return
            if loop.time() - judged >= PROGRESS_SECONDS:
                judged = loop.time()
                if (reason := await follower.may_stay()) is not None:
                    yield _said("end", reason=reason)
                    return
            changes = self._feed.after(at)
            if changes is None:
                yield _said("end", reason="the client reads more slowly than events come: read the lists again")
                return
            at = changes[-1].number if changes else at
            if told := [change for change in changes if follower.admits(change)]:
                silent = 0.0
                yield await self._events(told)
                continue
            if silent >= BEAT_SECONDS:
                silent = 0.0
                yield b": still here\n\n"
            try:
                await asyncio.wait_for(news.wait(), PROGRESS_SECONDS)
            except TimeoutError:
                silent += PROGRESS_SECONDS

    async def _events(self, changes: Sequence[FeedChange]) -> bytes:
        try:
            bodies = await run_in_threadpool(event_bodies, changes, life=self._feed.life, live=self._live)
        except TemporaryError as away:
            return _said("reset", reason=f"an event cannot be shown: {away}")
        return b"".join(
            f"id: {body.id}\nevent: {body.kind}\n".encode() + _data(body.model_dump(mode="json")) for body in bodies
        )

    def _signal_from(self, loop: asyncio.AbstractEventLoop) -> Callable[[], None]:
        """Return what tells all clients of news: one message to the loop, however many events there are."""

        def signal() -> None:
            if not self._signalled:
                self._signalled = True
                with suppress(RuntimeError):  # the port is closed, and the daemon goes on
                    loop.call_soon_threadsafe(self._wake)

        return signal

    def _wake(self) -> None:
        self._signalled = False
        for news in self._news:
            news.set()

    def _tick(self) -> None:
        if self._ticking is None or self._ticking.done():
            self._ticking = asyncio.get_running_loop().create_task(self._compare())

    async def _compare(self) -> None:
        """Add the progress of runs to the feed, for as long as there are clients."""
        while self._news:
            doing = dict(self._plane.progress())
            changed = [run for run, done in doing.items() if self._doing.get(run) != done]
            self._doing = doing
            if changed:
                await run_in_threadpool(self._add, changed)
            await asyncio.sleep(PROGRESS_SECONDS)

    def _add(self, changed: Sequence[RunId]) -> None:
        for run in changed:
            try:
                found = self._plane.run(run)
            except TemporaryError:
                return
            if found is not None and not found.state.ended:
                self._feed.add_run(found)


def _said(event: str, *, reason: str) -> bytes:
    return f"event: {event}\n".encode() + _data({"reason": reason})


def _data(value: Any) -> bytes:
    return b"data: " + Answer(value).body + b"\n\n"
