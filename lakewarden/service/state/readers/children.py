"""The reader processes: started when they are needed, and ended without waiting for them."""

from __future__ import annotations

import selectors
import time
from collections.abc import Iterator, Sequence
from typing import cast

import structlog

from lakewarden.planners.reading.process import Hello
from lakewarden.planners.storage.settings import StoreSettings
from lakewarden.service.state.readers.child import ReaderProcess

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
        self._spare: ReaderProcess | None = None
        self._fruitless = 0
        self._rests_until = 0.0
        self._failing_since: float | None = None

    def __iter__(self) -> Iterator[ReaderProcess]:
        return iter(list(self._living))

    def start(self, *, threads: int) -> ReaderProcess | None:
        """Start a process. Return None if that fails, or if too many ended without an answer just now.

        A process with a single thread replaces one that hangs. It was started before, so its tables need not wait until
        it can read.
        """
        if threads > 1:
            return self._started(threads)
        ready, self._spare = self._spare or self._started(1), None
        self._spare = self._started(1)
        return ready

    def _started(self, threads: int) -> ReaderProcess | None:
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
        if child is self._spare:
            self._spare = None
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
