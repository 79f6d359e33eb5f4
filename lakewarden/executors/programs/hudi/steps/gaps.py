"""Moments in which no write in flight is in the way of what is about to be done under the table's lock."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta

from lakewarden.executors.programs.hudi.client.opened import OpenTable
from lakewarden.planners.model.errors import TemporaryError, YieldError
from lakewarden.planners.model.instant import Instant
from lakewarden.planners.model.view import TableView

_BETWEEN_LOOKS = timedelta(milliseconds=200)
_UNTIL_THEY_SAY_WHERE = timedelta(seconds=5)
"""How long the lock is held for writes in flight to say what they touch. Beside several writers that are never idle
there is hardly a moment in which all have said it, unless none begins meanwhile. Writers wait for minutes."""


@contextlib.contextmanager
def alone_between_writes(
    table: OpenTable,
    in_the_way: Callable[[TableView], Sequence[Instant]],
    *,
    why: Callable[[Instant], str],
    within: timedelta,
    commits: bool = False,
    judge: Callable[[TableView], None] | None = None,
) -> Iterator[TableView]:
    """Hold the table's lock in a moment in which no write is `in_the_way`, with a look at the table under it.

    None begins while it is held (`OpenTable.alone`). It is looked without the lock, over and over, for a moment to take
    it. When `within` is over it is taken in any case, and held until the writes in the way have said what they touch,
    where that may take them out of it. Raises YieldError, with the reason `why`, where there is no such moment; and
    what `judge` raises, which is shown each look under the lock first.
    """
    deadline = table.clock.monotonic() + within.total_seconds()
    while True:
        late = table.clock.monotonic() >= deadline
        if late or not _at_a_glance(table, in_the_way, commits=commits):
            with table.alone():
                view, met = _patiently(table, in_the_way, judge, commits=commits, patient=late)
                if not met:
                    yield view
                    return
            if late:
                raise YieldError(why(met[0]))
        time.sleep(_BETWEEN_LOOKS.total_seconds())


def _at_a_glance(
    table: OpenTable, in_the_way: Callable[[TableView], Sequence[Instant]], *, commits: bool
) -> Sequence[Instant]:
    """Return the writes in the way by a look without the lock, which may find a file that is just being written."""
    try:
        return in_the_way(table.view(commits=commits))
    except TemporaryError:
        return ()


def _patiently(
    table: OpenTable,
    in_the_way: Callable[[TableView], Sequence[Instant]],
    judge: Callable[[TableView], None] | None,
    *,
    commits: bool,
    patient: bool,
) -> tuple[TableView, Sequence[Instant]]:
    """Return a look under the lock, and the writes that are in the way by it."""
    deadline = table.clock.monotonic() + (_UNTIL_THEY_SAY_WHERE.total_seconds() if patient else 0)
    while True:
        late = table.clock.monotonic() >= deadline
        try:
            view = table.view(commits=commits)
            if judge is not None:
                judge(view)
            met = in_the_way(view)
            if late or not met or any(write.time in view.writers.touching for write in met):
                return view, met
        except YieldError:
            raise
        except TemporaryError:  # a file is being written
            if late:
                raise
        time.sleep(_BETWEEN_LOOKS.total_seconds())
