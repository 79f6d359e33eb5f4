"""Tables of object stores and catalogs: many in flight, but few of a store that does not answer."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from datetime import datetime

from lakewarden.planners.model.table import Table
from lakewarden.planners.reading.observing import ObservationRequest
from lakewarden.service.state.readers.child import ReaderProcess
from lakewarden.service.state.readers.children import Children
from lakewarden.service.state.readers.places import place_of

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
        return [(one, *begun) for one in self._processes() for begun in one.under_way() if begun[1] > self._deadline]

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
            place_of(asked.table.location) for one in self._processes() for asked in one.requests.values()
        )
        alone = len({*in_flight, *(place_of(asked.table.location) for asked in self._queue)}) == 1
        most = _FOR_EACH_THREAD * self._threads if alone else max(1, self._threads // 2)
        stalled = {place_of(asked.table.location) for one in self._processes() for asked in _stalled(one)}
        room = _FOR_EACH_THREAD * self._threads - len(child.requests)
        given, left = [], deque[ObservationRequest]()
        for asked in self._queue:
            store = place_of(asked.table.location)
            if room <= 0 or in_flight[store] >= (_OF_A_STALLED_STORE if store in stalled else most):
                left.append(asked)
                continue
            in_flight[store] += 1
            room -= 1
            given.append(asked)
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
    return [asked for asked, age in child.under_way() if age > STALLED_SECONDS]


def is_remote(table: Table) -> bool:
    """Whether a table is read over a network."""
    return "://" in table.location
