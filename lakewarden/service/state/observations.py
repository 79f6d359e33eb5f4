"""Observations: keeps the last observation of every table, and has a table read again only when it may have changed.

It never waits. A look is asked for, and answered later by whoever reads. One look at a table is in flight at a time;
whoever asks meanwhile joins it, or the one after it where only what is read from now on will do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lakewarden.planners.model.errors import LakewardenError
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.ports import Observation
from lakewarden.planners.reading.looks import Answers, LookAnswer, LookAsked, Trouble
from lakewarden.service.state.moments import Moments
from lakewarden.service.state.readers.port import TableReaders

FULL_EVERY = 360
"""Every so many looks a table is read in full: a token may miss what was changed in place."""


class Look(NamedTuple):
    """What a look brought: the observation, and whether it is another one than the last time."""

    observation: Observation
    news: bool


@dataclass(slots=True, eq=False)
class _Seen:
    """What is known of a table: its observation by the look with the number `ticket`, its trouble by that of `failed`.
    `stood` is the last look by which that observation still stood.

    `asked` is the look that is in flight, `again` whether another has to follow it, `awaited` whether its answer is to
    be told, and `told` the ticket of the observation that was told last.
    """

    table: Table
    observation: Observation | None = None
    ticket: int | None = None
    stood: int = 0
    looks: int = 0
    trouble: Trouble | None = None
    failed: int = 0
    asked: LookAsked | None = None
    again: bool = False
    awaited: bool = False
    told: int | None = None


class Observations:
    """Has tables looked at. The control thread owns it; what is kept may be read from anywhere.

    `tell` is called, from any thread, when looks have been answered.
    """

    def __init__(
        self, *, readers: TableReaders, moments: Moments | None = None, tell: Callable[[], None] = lambda: None
    ) -> None:
        self._readers = readers
        self._moments = moments or Moments()
        self._tell = tell
        self._seen: dict[TableId, _Seen] = {}
        self._in_flight: dict[int, _Seen] = {}
        self._answers: deque[Answers] = deque()
        self._ready: dict[TableId, _Seen] = {}
        readers.open(self._hear)

    # -- tables whose time has come

    def look(self, tables: Sequence[tuple[Table, bool]]) -> None:
        """Have tables looked at; those with True are read from now on, whatever their tokens say."""
        looks = []
        for table, anew in tables:
            seen = self._known(table)
            seen.awaited = True
            asked = self._asked(seen, anew=anew)
            if asked is not None:
                looks.append(asked)
        if looks:
            self._readers.begin(looks)

    def answered(self) -> dict[TableId, Look | LakewardenError]:
        """Return what the tables that were to be looked at are now, as far as they have been: each is told once."""
        self._take_in()
        ready, self._ready = self._ready, {}
        return {table: brought for table, seen in ready.items() if (brought := _brought(seen)) is not None}

    # -- before a permit, and when a run has ended

    def mark(self) -> int:
        """Return a mark for now: what `since` returns for it is read from now on."""
        return self._moments.mark()

    def since(self, table: Table, mark: int, *, anew: bool = True) -> Observation | None:
        """Return the table as it was read by a look that was begun since `mark`, or as it still stood then by its token
        where it is not asked for `anew`; None where there is no such look yet: then it is being looked at, and is to be
        asked for again.

        Raises the trouble that such a look ran into.
        """
        found = self._found_since(table, mark, anew=anew)
        if found is not None:
            return found
        seen = self._known(table)
        if seen.asked is not None and (seen.asked.anew or not anew) and seen.asked.ticket >= mark:
            return None  # it is the look that this question waits for
        asked = self._asked(seen, anew=anew)
        if asked is None:
            return None
        self._readers.begin([asked])
        return self._found_since(table, mark, anew=anew)

    def read_since(self, table: TableId, mark: int) -> bool:
        """Whether what is kept of a table was read by a look that was begun since `mark`."""
        seen = self._seen.get(table)
        return seen is not None and seen.ticket is not None and seen.ticket >= mark

    def _found_since(self, table: Table, mark: int, *, anew: bool) -> Observation | None:
        self._take_in()
        seen = self._known(table)
        if seen.trouble is not None and seen.failed >= mark:
            raise seen.trouble.error()
        at = seen.ticket if anew else max(seen.ticket or 0, seen.stood)
        return seen.observation if at is not None and at >= mark else None

    # -- what is kept

    def kept(self, table: TableId) -> Observation | None:
        """Return the last observation, however old."""
        seen = self._seen.get(table)
        return None if seen is None else seen.observation

    def forget(self, table: TableId) -> None:
        """Drop what is kept of a table, so that the next look reads everything."""
        seen = self._seen.pop(table, None)
        self._ready.pop(table, None)
        if seen is not None:
            self._readers.forget(table)
        if seen is not None and seen.asked is not None:
            self._in_flight.pop(seen.asked.ticket, None)

    # -- looks

    def _known(self, table: Table) -> _Seen:
        seen = self._seen.get(table.id)
        if seen is None:
            seen = self._seen[table.id] = _Seen(table=table)
        return seen

    def _asked(self, seen: _Seen, *, anew: bool) -> LookAsked | None:
        """Return the look to begin; None where the one in flight will do, or is followed by another."""
        if seen.asked is not None:
            seen.again = seen.again or anew
            return None
        full = seen.looks >= FULL_EVERY and seen.observation is not None and not seen.observation.view.faults
        seen.looks = 0 if full or seen.observation is None else seen.looks + 1
        seen.asked = asked = LookAsked(
            ticket=self._moments.next(),
            table=seen.table,
            anew=anew,
            full=full,
            known=seen.ticket,
            previous=seen.observation,
        )
        self._in_flight[asked.ticket] = seen
        return asked

    def _hear(self, answers: Answers) -> None:
        """Take answers, in whatever thread they come."""
        self._answers.append(answers)
        self._tell()

    def _take_in(self) -> None:
        follow: list[LookAsked] = []
        while self._answers:
            unchanged, others, _ = self._answers.popleft()
            for ticket in unchanged:
                self._note(ticket, None, follow)
            for answer in others:
                self._note(answer.ticket, answer, follow)
        if follow:
            self._readers.begin(follow)

    def _note(self, ticket: int, answer: LookAnswer | None, follow: list[LookAsked]) -> None:
        """Take note of an answer, None where nothing has changed; where another look has to follow, note that too."""
        seen = self._in_flight.pop(ticket, None)
        if seen is None:
            return  # the table was forgotten meanwhile
        seen.asked = seen.trouble = None
        if answer is None:
            seen.stood = ticket
        else:
            seen.trouble = answer.trouble
            if answer.trouble is not None:
                seen.failed = ticket
            else:
                seen.observation, seen.ticket = answer.observation, ticket
        if seen.again:
            seen.again = False
            asked = self._asked(seen, anew=True)
            if asked is not None:
                follow.append(asked)
        elif seen.awaited:
            seen.awaited = False
            self._ready[seen.table.id] = seen


def _brought(seen: _Seen) -> Look | LakewardenError | None:
    if seen.trouble is not None:
        return seen.trouble.error()
    if seen.observation is None:
        return None
    news, seen.told = seen.ticket != seen.told, seen.ticket
    return Look(observation=seen.observation, news=news)
