"""Observations that take long, or that ended a process, are made alone, each in a process of its own."""

from __future__ import annotations

import time
from collections import deque
from datetime import datetime

from lakewarden.planners.model.table import TableId
from lakewarden.planners.reading.observing import ObservationRequest
from lakewarden.service.state.readers.child import ReaderProcess
from lakewarden.service.state.readers.children import Children

PROCESSES = 2
"""How many observations are begun here at a time. At least one of them is of a table that has not ended a process."""

MOST = 4
"""How many may be under way, with those that became slow elsewhere. Beyond that the oldest is given up."""

_IDLE_SECONDS = 60.0


class SlowLane:
    """A queue, and a few processes that come and go."""

    def __init__(self, children: Children, *, timeout: float, deadline: float) -> None:
        """Give up an observation that takes longer than `deadline` seconds.

        If an observation takes less than half of `timeout` seconds, its table is no longer slow.
        """
        self._children = children
        self._timeout = timeout
        self._deadline = deadline
        self._processes: list[ReaderProcess] = []
        self._queue: deque[ObservationRequest] = deque()
        self._tables: set[TableId] = set()
        self._harmful: set[TableId] = set()
        self._remembered: set[int] = set()

    def is_for(self, table: TableId) -> bool:
        """Whether a table is read here."""
        return table in self._tables

    def ask(self, requests: list[ObservationRequest]) -> None:
        """Make observations as soon as a process is free. Their tables are read here from now on."""
        self._tables.update(asked.table.id for asked in requests)
        self._queue.extend(requests)

    def take_over(self, child: ReaderProcess) -> None:
        """Take over a process with its current observation."""
        self._tables.update(asked.table.id for asked in child.requests.values())
        self._processes.append(child)

    def blame(self, asked: ObservationRequest) -> None:
        """Note that the reading of a table ended its process."""
        self._tables.add(asked.table.id)
        self._harmful.add(asked.table.id)

    def answered(self, child: ReaderProcess, asked: ObservationRequest, *, well: bool) -> None:
        """Note that an observation has ended by itself.

        If its process remembered the table, a quick observation proves nothing. Another process would have to read all
        again.
        """
        remembered = asked.ticket in self._remembered
        self._remembered.discard(asked.ticket)
        if asked.table.id not in self._tables:
            return
        self._harmful.discard(asked.table.id)
        if (
            well
            and not remembered
            and child in self._processes
            and time.monotonic() - child.asked_at < self._timeout / 2
        ):
            self._tables.discard(asked.table.id)

    def forget(self, table: TableId) -> None:
        """Forget a table."""
        self._tables.discard(table)
        self._harmful.discard(table)

    def waits(self) -> bool:
        """Whether a request waits for a process."""
        return bool(self._queue)

    def hand_out(self, *, now: datetime) -> list[ObservationRequest]:
        """Begin the requests that can be begun. Return those for which no process can be started."""
        left = []
        while (asked := self._next()) is not None:
            self._queue.remove(asked)
            idle = sorted((one for one in self._processes if not one.requests), key=lambda one: not one.knows(asked))
            child = idle[0] if idle else self._children.start(threads=1)
            if child is None:
                left.append(asked)
                continue
            if not idle:
                self._processes.append(child)
            if child.knows(asked):
                self._remembered.add(asked.ticket)
            child.ask([asked], now=now)
        return left

    def overdue(self) -> list[tuple[ReaderProcess, ObservationRequest, float]]:
        """Return the processes with an observation to give up, with that request and how many seconds it took."""
        busy = [(child, *one) for child in self._processes for one in child.under_way()]
        too_long = [one for one in busy if one[2] > self._deadline]
        beyond = sorted(busy, key=lambda one: -one[2])[: max(0, len(busy) - MOST)]
        return too_long + [one for one in beyond if one not in too_long]

    def leave(self, child: ReaderProcess) -> bool:
        """Remove a process from this lane. Return whether it was in it."""
        if child not in self._processes:
            return False
        self._processes.remove(child)
        return True

    def superfluous(self) -> list[ReaderProcess]:
        """Return idle processes that are not needed. A process that remembers slow tables is kept, because reading took
        long.
        """
        idle = [child for child in self._processes if not child.requests]
        unused = [
            child
            for child in idle
            if time.monotonic() - child.asked_at > _IDLE_SECONDS and not child.remembers(self._tables)
        ]
        return unused or idle[: max(0, len(self._processes) - PROCESSES)]

    def _next(self) -> ObservationRequest | None:
        busy = [asked for child in self._processes for asked in child.requests.values()]
        if len(busy) >= PROCESSES:
            return None
        room_for_harm = sum(asked.table.id in self._harmful for asked in busy) < PROCESSES - 1
        return next((a for a in self._queue if room_for_harm or a.table.id not in self._harmful), None)
