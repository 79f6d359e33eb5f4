"""Moments in which no write in flight can meet what is about to be completed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterator, Sequence
from datetime import timedelta

from lakewarden.executors.programs.hudi.opened import OpenTable
from lakewarden.planners.formats.hudi.beside import meeting
from lakewarden.planners.model.errors import TemporaryError, YieldError
from lakewarden.planners.model.instant import Instant

_SOON = timedelta(seconds=30)


@contextlib.contextmanager
def between_writes_to(table: OpenTable, partitions: Collection[str]) -> Iterator[None]:
    """Hold the table's lock in a moment in which no write in flight touches one of the partitions, or may touch it.

    None begins while it is held (`OpenTable.alone`), so what is completed within meets no write. Raises YieldError
    where there is no such moment within half a minute.
    """
    deadline = table.clock.monotonic() + _SOON.total_seconds()
    while True:
        met = _met_at_a_glance(table, partitions)
        if not met:
            with table.alone():
                met = _met(table, partitions)
                if not met:
                    yield
                    return
        if table.clock.monotonic() >= deadline:
            raise YieldError(f"write {met[0].time} in flight touches, or may touch, what would be completed")
        time.sleep(0.05)


def _met_at_a_glance(table: OpenTable, partitions: Collection[str]) -> Sequence[Instant]:
    """Return the same of a look without the lock, which may find a file that is just being written."""
    try:
        return _met(table, partitions)
    except TemporaryError:
        return ()


def _met(table: OpenTable, partitions: Collection[str]) -> Sequence[Instant]:
    view = table.view()
    return meeting(view.writers, partitions, view.observed_at)
