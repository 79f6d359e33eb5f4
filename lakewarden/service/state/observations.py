"""Observations: keeps the last observation of every table. A table is read again only if it may have changed.

It never waits. An observation is requested, and a reader answers it later. One observation of a table is in flight at a
time. A request meanwhile joins it, or the next one if only later readings are good enough.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lakewarden.planners.model.errors import LakewardenError
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.ports import Observation
from lakewarden.planners.reading.observing import Answers, ObservationAnswer, ObservationRequest, ReadFailure
from lakewarden.service.state.readers.port import TableReaders

FULL_EVERY = 360
"""After so many observations a table is read completely, because a token may miss a change in place."""


class Polled(NamedTuple):
    """The result of an observation, and whether it is another one than the last time."""

    observation: Observation
    news: bool


@dataclass(slots=True, eq=False)
class _Seen:
    """What is known about a table. The ticket is the number of a request for an observation.

    `observation` is the last one, with its `ticket`. `failure` is the last failure, and `failed` its ticket. `stood` is
    the last request at which the token confirmed the observation. `asked` is the request in flight. `again` says
    whether another one must follow it, and `awaited` whether `answered` must report it. `told` is the ticket of the
    observation that was reported last.
    """

    table: Table
    observation: Observation | None = None
    ticket: int | None = None
    stood: int = 0
    since_full: int = 0
    failure: ReadFailure | None = None
    failed: int = 0
    asked: ObservationRequest | None = None
    again: bool = False
    awaited: bool = False
    told: int | None = None


class Observations:
    """Has tables observed. It belongs to the control thread. Any thread may read what is kept.

    `tell` is called, from any thread, when requests have been answered.
    """

    def __init__(self, *, readers: TableReaders, tell: Callable[[], None] = lambda: None) -> None:
        self._readers = readers
        self._tell = tell
        self._next_ticket = 1
        """Tickets give requests and readings an order without a clock. So it is certain which of two came first."""
        self._seen: dict[TableId, _Seen] = {}
        self._in_flight: dict[int, _Seen] = {}
        self._answers: deque[Answers] = deque()
        self._ready: dict[TableId, _Seen] = {}
        readers.open(self._hear)

    # -- tables that are due

    def request(self, tables: Sequence[tuple[Table, bool]]) -> None:
        """Have tables observed. Those with True are read even if their tokens are equal."""
        requests = []
        for table, anew in tables:
            seen = self._entry(table)
            seen.awaited = True
            request = self._request_for(seen, anew=anew)
            if request is not None:
                requests.append(request)
        if requests:
            self._readers.begin(requests)

    def answered(self) -> dict[TableId, Polled | LakewardenError]:
        """Return the results for the tables of `request`, as far as they are there. Each result is returned once."""
        self._take_in()
        ready, self._ready = self._ready, {}
        return {table: brought for table, seen in ready.items() if (brought := _brought(seen)) is not None}

    # -- before a permit, and when a run has ended

    def mark(self) -> int:
        """Return a mark for now. What `since` returns for it is read from now on."""
        return self._next_ticket

    def since(self, table: Table, mark: int, *, anew: bool = True) -> Observation | None:
        """Return the table as it was read by an observation that was begun since `mark`.

        Without `anew` an observation counts that its token has confirmed since `mark`. Return None if there is none
        yet: the table is being read, and the caller must ask again. Raises the error of such an observation.
        """
        observation = self._found_since(table, mark, anew=anew)
        if observation is not None:
            return observation
        seen = self._entry(table)
        if seen.asked is not None and (seen.asked.anew or not anew) and seen.asked.ticket >= mark:
            return None  # the request in flight is the one that the caller waits for
        request = self._request_for(seen, anew=anew)
        if request is None:
            return None
        self._readers.begin([request])
        return self._found_since(table, mark, anew=anew)

    def read_since(self, table: TableId, mark: int) -> bool:
        """Whether the kept observation of a table was read since `mark`. A confirmation by its token does not count."""
        seen = self._seen.get(table)
        return seen is not None and seen.ticket is not None and seen.ticket >= mark

    def _found_since(self, table: Table, mark: int, *, anew: bool) -> Observation | None:
        self._take_in()
        seen = self._entry(table)
        if seen.failure is not None and seen.failed >= mark:
            raise seen.failure.error()
        at = seen.ticket if anew else max(seen.ticket or 0, seen.stood)
        return seen.observation if at is not None and at >= mark else None

    # -- what is kept

    def kept(self, table: TableId) -> Observation | None:
        """Return the last observation, even if it is old."""
        seen = self._seen.get(table)
        return None if seen is None else seen.observation

    def forget(self, table: TableId) -> None:
        """Drop what is kept of a table, so that the next observation reads everything."""
        seen = self._seen.pop(table, None)
        self._ready.pop(table, None)
        if seen is not None:
            self._readers.forget(table)
        if seen is not None and seen.asked is not None:
            self._in_flight.pop(seen.asked.ticket, None)

    # -- requests and answers

    def _entry(self, table: Table) -> _Seen:
        seen = self._seen.get(table.id)
        if seen is None:
            seen = self._seen[table.id] = _Seen(table=table)
        return seen

    def _request_for(self, seen: _Seen, *, anew: bool) -> ObservationRequest | None:
        """Return the request to begin, or None if the one in flight is enough, or another one will follow it."""
        if seen.asked is not None:
            seen.again = seen.again or anew
            return None
        full = seen.since_full >= FULL_EVERY and seen.observation is not None and not seen.observation.view.faults
        seen.since_full = 0 if full or seen.observation is None else seen.since_full + 1
        ticket, self._next_ticket = self._next_ticket, self._next_ticket + 1
        seen.asked = request = ObservationRequest(
            ticket=ticket,
            table=seen.table,
            anew=anew,
            full=full,
            known=seen.ticket,
            previous=seen.observation,
        )
        self._in_flight[request.ticket] = seen
        return request

    def _hear(self, answers: Answers) -> None:
        """Take answers, in any thread."""
        self._answers.append(answers)
        self._tell()

    def _take_in(self) -> None:
        follow: list[ObservationRequest] = []
        while self._answers:
            unchanged, others, _ = self._answers.popleft()
            for ticket in unchanged:
                self._note(ticket, None, follow)
            for answer in others:
                self._note(answer.ticket, answer, follow)
        if follow:
            self._readers.begin(follow)

    def _note(self, ticket: int, answer: ObservationAnswer | None, follow: list[ObservationRequest]) -> None:
        """Note an answer. It is None if nothing has changed. If another observation must follow, append it to
        `follow`.
        """
        seen = self._in_flight.pop(ticket, None)
        if seen is None:
            return  # the table was forgotten meanwhile
        seen.asked = seen.failure = None
        if answer is None:
            seen.stood = ticket
        else:
            seen.failure = answer.failure
            if answer.failure is not None:
                seen.failed = ticket
            else:
                seen.observation, seen.ticket = answer.observation, ticket
        if seen.again:
            seen.again = False
            request = self._request_for(seen, anew=True)
            if request is not None:
                follow.append(request)
        elif seen.awaited:
            seen.awaited = False
            self._ready[seen.table.id] = seen


def _brought(seen: _Seen) -> Polled | LakewardenError | None:
    if seen.failure is not None:
        return seen.failure.error()
    if seen.observation is None:
        return None
    news, seen.told = seen.ticket != seen.told, seen.ticket
    return Polled(observation=seen.observation, news=news)
