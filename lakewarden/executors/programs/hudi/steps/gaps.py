"""Moments in which no write in flight conflicts with what is about to be done under the table's lock."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta

from lakewarden.executors.programs.hudi.client.opened import OpenTable
from lakewarden.planners.formats.hudi.metadata.names import Layout
from lakewarden.planners.model.errors import TemporaryError, YieldError
from lakewarden.planners.model.instant import Instant
from lakewarden.planners.model.view import TableView

_BETWEEN_LOOKS = timedelta(milliseconds=200)
_UNTIL_THEY_SAY_WHERE = timedelta(seconds=5)
"""How long the lock is held for writes in flight to say what they touch. Several writers that are never idle have
hardly ever all said it, unless none begins meanwhile. Writers wait for the lock for minutes."""

_UNTIL_IT_IS_CARRIED_OUT = timedelta(minutes=1)


@contextlib.contextmanager
def alone_between_writes(
    table: OpenTable,
    in_the_way: Callable[[TableView], Sequence[Instant]],
    *,
    why: Callable[[Instant], str] | None,
    within: timedelta,
    commits: bool = False,
    judge: Callable[[TableView], None] | None = None,
) -> Iterator[TableView]:
    """Hold the table's lock in a moment in which no write is `in_the_way`, with an observation of the table under it.

    No write begins while it is held (`OpenTable.alone`). The table is observed without the lock, over and over, for a
    moment to take it. After `within` the lock is taken in any case. Then it is held until the writes in the way have
    said what they touch, which may show that they do not conflict. If there is no such moment, raises YieldError with
    the reason `why`. Without `why` the block is entered beside those writes. Each observation under the lock is first
    passed to `judge`. Its errors are raised.
    """
    deadline = table.clock.monotonic() + within.total_seconds()
    while True:
        late = table.clock.monotonic() >= deadline
        if late or not _at_a_glance(table, in_the_way, commits=commits):
            with table.alone():
                view, met = _patiently(table, in_the_way, judge, commits=commits, patient=late)
                if not met or (late and why is None):
                    yield view
                    return
            if late and why is not None:
                raise YieldError(why(met[0]))
        time.sleep(_BETWEEN_LOOKS.total_seconds())


def _at_a_glance(
    table: OpenTable, in_the_way: Callable[[TableView], Sequence[Instant]], *, commits: bool
) -> Sequence[Instant]:
    """Return the writes in the way by an observation without the lock. It may find a file that is being written."""
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
    """Return an observation under the lock, and the writes that are in the way by it."""
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


def refuse_what_stops_a_build(table: OpenTable, view: TableView) -> None:
    """Raise YieldError for a pending instant beside which Hudi makes no part of the metadata table. Below table version
    8 any stops it, also a plan that waits. Hudi only logs that (`shouldInitializeFromFilesystem`, 1.2.0, and run).
    """
    writes = {write.time for write in view.writers.in_flight}
    if table.properties().layout is Layout.V1:
        for one in view.timeline.instants:
            if one.pending and one.time not in writes:
                raise YieldError(
                    f"{one.action} {one.time} is pending, and below table version 8 Hudi makes no part of the "
                    "metadata table beside it: let it be carried out, or take it off the timeline",
                    delay=_UNTIL_IT_IS_CARRIED_OUT,
                )
