"""Looks that take long, or ended a process by now, are made alone, each in a process that does nothing else."""

from __future__ import annotations

import time
from collections import deque
from datetime import datetime

from lakewarden.planners.model.table import TableId
from lakewarden.planners.reading.looks import LookAsked
from lakewarden.service.state.readers.child import Child
from lakewarden.service.state.readers.children import Children

PROCESSES = 2
"""So many looks are begun here at a time. One of them at least is of a table that has not ended a process by now."""

MOST = 4
"""So many may be under way, with those that became slow elsewhere: then the oldest is given up."""

_IDLE_SECONDS = 60.0


class SlowLane:
    """A queue, and a few processes that come and go."""

    def __init__(self, children: Children, *, patience: float, deadline: float) -> None:
        """Give up a look that takes longer than `deadline` seconds; a table whose look takes less than half of
        `patience` seconds is slow no longer.
        """
        self._children = children
        self._patience = patience
        self._deadline = deadline
        self._processes: list[Child] = []
        self._queue: deque[LookAsked] = deque()
        self._tables: set[TableId] = set()
        self._harmful: set[TableId] = set()
        self._remembered: set[int] = set()

    def is_for(self, table: TableId) -> bool:
        """Whether a table is read here."""
        return table in self._tables

    def ask(self, looks: list[LookAsked]) -> None:
        """Make looks as soon as a process is free. Their tables are read here from now on."""
        self._tables.update(asked.table.id for asked in looks)
        self._queue.extend(looks)

    def take_over(self, child: Child) -> None:
        """Let a process go on here with the look that it is at."""
        self._tables.update(asked.table.id for asked in child.looks.values())
        self._processes.append(child)

    def blame(self, asked: LookAsked) -> None:
        """Know that reading a table ended its process."""
        self._tables.add(asked.table.id)
        self._harmful.add(asked.table.id)

    def answered(self, child: Child, asked: LookAsked, *, well: bool) -> None:
        """Know that a look has ended by itself. One that was quick because its process remembered the table tells
        nothing: another one would have to read it all again.
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
            and time.monotonic() - child.asked_at < self._patience / 2
        ):
            self._tables.discard(asked.table.id)

    def forget(self, table: TableId) -> None:
        """Know nothing of a table any more."""
        self._tables.discard(table)
        self._harmful.discard(table)

    def waits(self) -> bool:
        """Whether a look waits for a process."""
        return bool(self._queue)

    def hand_out(self, *, now: datetime) -> list[LookAsked]:
        """Begin what can be begun; return the looks for which no process can be started."""
        left = []
        while (asked := self._next()) is not None:
            self._queue.remove(asked)
            idle = sorted((one for one in self._processes if not one.looks), key=lambda one: not one.knows(asked))
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

    def overdue(self) -> list[tuple[Child, LookAsked, float]]:
        """Return the processes whose look has to be given up, with that look and how many seconds it took."""
        busy = [(child, *one) for child in self._processes for one in child.under_way()]
        too_long = [one for one in busy if one[2] > self._deadline]
        beyond = sorted(busy, key=lambda one: -one[2])[: max(0, len(busy) - MOST)]
        return too_long + [one for one in beyond if one not in too_long]

    def leave(self, child: Child) -> bool:
        """Let a process serve here no longer; return whether it did."""
        if child not in self._processes:
            return False
        self._processes.remove(child)
        return True

    def superfluous(self) -> list[Child]:
        """Return idle processes that nobody needs: what they remember of tables that are read here took long."""
        idle = [child for child in self._processes if not child.looks]
        unused = [
            child
            for child in idle
            if time.monotonic() - child.asked_at > _IDLE_SECONDS and not child.remembers(self._tables)
        ]
        return unused or idle[: max(0, len(self._processes) - PROCESSES)]

    def _next(self) -> LookAsked | None:
        busy = [asked for child in self._processes for asked in child.looks.values()]
        if len(busy) >= PROCESSES:
            return None
        room_for_harm = sum(asked.table.id in self._harmful for asked in busy) < PROCESSES - 1
        return next((a for a in self._queue if room_for_harm or a.table.id not in self._harmful), None)
