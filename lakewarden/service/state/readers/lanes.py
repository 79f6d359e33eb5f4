"""The three lanes of reader processes: quick, slow and remote.

- Tables of local and mounted disks are read one after the other, each always by the same process.
- Observations that take long, or that ended a process, are made alone, each in a process of its own.
- Of tables of object stores and catalogs many are in flight, but few of a store that does not answer.
"""

from __future__ import annotations

import time
import zlib
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from datetime import datetime

from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.reading.observing import ObservationRequest
from lakewarden.service.state.readers.child import Children, ReaderProcess
from lakewarden.service.state.readers.threads import place_of


class QuickLane:
    """A fixed number of places for processes, each with its own tables."""

    def __init__(self, children: Children, *, size: int, timeout: float) -> None:
        """Have `size` processes. An observation that takes longer than `timeout` seconds is not quick."""
        self._children = children
        self._places: list[ReaderProcess | None] = [None] * size
        self._timeout = timeout

    def ask(self, requests: Sequence[ObservationRequest], *, now: datetime) -> list[ObservationRequest]:
        """Send requests to their processes. Return those for which there is no process."""
        by_place: dict[int, list[ObservationRequest]] = {}
        for request in requests:
            by_place.setdefault(zlib.crc32(request.table.id.encode()) % len(self._places), []).append(request)
        left = []
        for place, those in by_place.items():
            child = self._places[place] = self._places[place] or self._children.start(threads=1)
            if child is None:
                left += those
            else:
                child.ask(those, now=now)
        return left

    def stuck(self) -> list[ReaderProcess]:
        """Return the processes that need too long for one observation."""
        return [child for child in self._processes() if any(age > self._timeout for _, age in child.under_way())]

    def leave(self, child: ReaderProcess) -> bool:
        """Remove a process from this lane. Return whether it was in it."""
        if child not in self._places:
            return False
        self._places[self._places.index(child)] = None
        return True

    def _processes(self) -> list[ReaderProcess]:
        return [child for child in self._places if child is not None]


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
        self._tables.update(request.table.id for request in requests)
        self._queue.extend(requests)

    def take_over(self, child: ReaderProcess) -> None:
        """Take over a process with its current observation."""
        self._tables.update(request.table.id for request in child.requests.values())
        self._processes.append(child)

    def blame(self, request: ObservationRequest) -> None:
        """Note that the reading of a table ended its process."""
        self._tables.add(request.table.id)
        self._harmful.add(request.table.id)

    def answered(self, child: ReaderProcess, request: ObservationRequest, *, well: bool) -> None:
        """Note that an observation has ended by itself.

        If its process remembered the table, a quick observation proves nothing. Another process would have to read all
        again.
        """
        remembered = request.ticket in self._remembered
        self._remembered.discard(request.ticket)
        if request.table.id not in self._tables:
            return
        self._harmful.discard(request.table.id)
        if (
            well
            and not remembered
            and child in self._processes
            and time.monotonic() - child.asked_at < self._timeout / 2
        ):
            self._tables.discard(request.table.id)

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
        while (request := self._next()) is not None:
            self._queue.remove(request)
            idle = sorted(
                (process for process in self._processes if not process.requests),
                key=lambda reader: not reader.knows(request),
            )
            child = idle[0] if idle else self._children.start(threads=1)
            if child is None:
                left.append(request)
                continue
            if not idle:
                self._processes.append(child)
            if child.knows(request):
                self._remembered.add(request.ticket)
            child.ask([request], now=now)
        return left

    def overdue(self) -> list[tuple[ReaderProcess, ObservationRequest, float]]:
        """Return the processes with an observation to give up, with that request and how many seconds it took."""
        busy = [(child, *pair) for child in self._processes for pair in child.under_way()]
        too_long = [entry for entry in busy if entry[2] > self._deadline]
        beyond = sorted(busy, key=lambda entry: -entry[2])[: max(0, len(busy) - MOST)]
        return too_long + [entry for entry in beyond if entry not in too_long]

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
        busy = [request for child in self._processes for request in child.requests.values()]
        if len(busy) >= PROCESSES:
            return None
        room_for_harm = sum(request.table.id in self._harmful for request in busy) < PROCESSES - 1
        return next((a for a in self._queue if room_for_harm or a.table.id not in self._harmful), None)


STALLED_SECONDS = 5.0
"""A store is stalled while an observation of one of its tables takes longer."""

_OF_A_STALLED_STORE = 2
_FOR_EACH_THREAD = 4
"""How many requests the process has at a time for each thread. So a thread need not wait for the daemon."""

_MOST_LEAVING = 3


class RemoteLane:
    """One process with many threads, and its predecessors as long as stores keep them waiting."""

    def __init__(self, children: Children, *, threads: int, deadline: float) -> None:
        """Have a process with so many threads. An observation that takes longer than `deadline` seconds is given up."""
        self._children = children
        self._threads = threads
        self._deadline = deadline
        self._process: ReaderProcess | None = None
        self._leaving: list[ReaderProcess] = []
        self._queue: deque[ObservationRequest] = deque()

    def ask(self, requests: Iterable[ObservationRequest]) -> None:
        """Make observations as soon as there is room for them."""
        self._queue.extend(requests)

    def waits(self) -> bool:
        """Whether a request waits for room."""
        return bool(self._queue)

    def hand_out(self, *, now: datetime) -> list[ObservationRequest]:
        """Begin the requests that there is room for. Return those for which no process can be started."""
        self._replace_if_stalled()
        if not self._queue:
            return []
        child = self._process = self._process or self._children.start(threads=self._threads)
        if child is None:
            left, self._queue = list(self._queue), deque()
            return left
        given = self._fitting(child)
        if given:
            child.ask(given, now=now)
        return []

    def overdue(self) -> list[tuple[ReaderProcess, ObservationRequest, float]]:
        """Return the requests that must be given up, each with its process and how many seconds it took."""
        return [
            (process, *begun)
            for process in self._processes()
            for begun in process.under_way()
            if begun[1] > self._deadline
        ]

    def leave(self, child: ReaderProcess) -> bool:
        """Remove a process from this lane. Return whether it was in it."""
        if child is self._process:
            self._process = None
            return True
        if child in self._leaving:
            self._leaving.remove(child)
            return True
        return False

    def superfluous(self) -> list[ReaderProcess]:
        """Return the processes without open requests, or else the oldest of too many old ones."""
        done = [child for child in self._leaving if not child.requests]
        return done or self._leaving[: max(0, len(self._leaving) - _MOST_LEAVING)]

    def _processes(self) -> list[ReaderProcess]:
        return [*self._leaving, *([] if self._process is None else [self._process])]

    def _fitting(self, child: ReaderProcess) -> list[ObservationRequest]:
        in_flight = Counter(
            place_of(request.table.location) for process in self._processes() for request in process.requests.values()
        )
        alone = len({*in_flight, *(place_of(request.table.location) for request in self._queue)}) == 1
        most = _FOR_EACH_THREAD * self._threads if alone else max(1, self._threads // 2)
        stalled = {place_of(request.table.location) for process in self._processes() for request in _stalled(process)}
        room = _FOR_EACH_THREAD * self._threads - len(child.requests)
        given, left = [], deque[ObservationRequest]()
        for request in self._queue:
            store = place_of(request.table.location)
            if room <= 0 or in_flight[store] >= (_OF_A_STALLED_STORE if store in stalled else most):
                left.append(request)
                continue
            in_flight[store] += 1
            room -= 1
            given.append(request)
        self._queue = left
        return given

    def _replace_if_stalled(self) -> None:
        """Replace the process after half of its threads wait for stores that do not answer. What it has not begun goes
        to its successor: it would wait behind those threads.
        """
        child = self._process
        if child is not None and len(_stalled(child)) * 2 >= self._threads:
            left = child.take_back_what_is_not_begun(before=max(child.requests) + 1)
            self._queue.extendleft(reversed(left))
            self._leaving.append(child)
            self._process = None


def _stalled(child: ReaderProcess) -> list[ObservationRequest]:
    return [request for request, age in child.under_way() if age > STALLED_SECONDS]


def is_remote(table: Table) -> bool:
    """Whether a table is read over a network."""
    return "://" in table.location
