"""Housekeeping: old rows are deleted from the store in small steps, so that no other caller waits long for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

import structlog
from apscheduler.schedulers.background import BackgroundScheduler

from lakewarden.executors.edge import edge
from lakewarden.executors.pool.listening import RunLogs
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.errors import LakewardenError, TemporaryError
from lakewarden.planners.model.table import Table, TableId
from lakewarden.service.store.sql.store import Store

log = structlog.get_logger(__name__)

EVERY = timedelta(hours=1)

FIRST = timedelta(minutes=5)
"""How long after the start the first housekeeping runs. So it also runs in a daemon that is often restarted."""

BREATH_SECONDS = 0.05
"""The pause between two steps, in which others may write."""


_AT_ONCE = 200

MOST_CHANGES = 1_000_000
"""So many changes of decisions are kept at most, the newest. A row needs some 400 bytes, so a table that changes its
mind again and again fills no disk.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Keeping:
    """How long runs, acts and changes of decisions are kept."""

    runs: timedelta
    acts: timedelta
    changes: timedelta


def tidy(
    store: Store, *, registered: Mapping[TableId, Table], at: datetime, keep: Keeping, pause: Callable[[float], bool]
) -> int | None:
    """Delete what is older than `keep`, with a pause between any two steps. Return the number of deleted runs.

    `pause` waits for so many seconds, and returns whether to end early. The result is None if the store does not
    answer.
    """
    forgotten, after = 0, 0
    locations = {table.id: table.location for table in registered.values()}
    try:
        for runs in store.forget(registered=locations, at=at, keep=keep.runs):
            forgotten += runs
            if pause(BREATH_SECONDS):
                return forgotten
        while store.forget_acts(before=at - keep.acts, most=_AT_ONCE) == _AT_ONCE:
            if pause(BREATH_SECONDS):
                return forgotten
        changes = partial(store.forget_decision_changes, before=at - keep.changes, keep=MOST_CHANGES, most=_AT_ONCE)
        while (last := changes(after=after)[0]) is not None:
            after = last
            if pause(BREATH_SECONDS):
                return forgotten
    except TemporaryError as error:
        log.warning("store_unavailable", error=str(error))
        return None
    return forgotten


@contextmanager
def housekeeping(
    store: Store, clock: Clock, *, registered: Mapping[TableId, Table], keep: Keeping, run_logs: RunLogs
) -> Iterator[None]:
    """Tidy the store once an hour inside the `with` block. `registered` is read again each time."""
    over = threading.Event()

    def once() -> None:
        forgotten = tidy(store, registered=registered, at=clock.now(), keep=keep, pause=over.wait)
        run_logs.prune(clock.now() - keep.runs)
        if forgotten is not None:
            log.info("housekeeping", runs_forgotten=forgotten)

    ticker = BackgroundScheduler(timezone="UTC", job_defaults={"misfire_grace_time": None, "coalesce": True})
    ticker.add_job(once, "interval", seconds=EVERY.total_seconds(), next_run_time=datetime.now(UTC) + FIRST)
    ticker.start()
    try:
        yield
    finally:
        over.set()
        ticker.shutdown(wait=False)


# Whether the store can be written. A daemon that has nothing to keep would not find out that a disk is full.


EVERY_SECONDS = 5.0

AGAIN_SECONDS = 1.0
"""How soon a store that could not be written is tried again."""


class StoreWatch:
    """Tries the store at intervals. The log has one line for each change."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._is_told = False

    def look(self) -> float:
        """Try to write, and return the seconds until the next look. Any error that the store has is in the log."""
        try:
            self._store.check_writable()
        except LakewardenError as error:
            if not self._is_told:
                log.warning("store_unwritable", error=str(error))
            self._is_told = True
            return AGAIN_SECONDS
        if self._is_told:
            log.info("store_writable_again")
        self._is_told = False
        return EVERY_SECONDS


@contextmanager
def watching(store: Store) -> Iterator[None]:
    """Watch the store in a thread of its own inside the `with` block. A store that hangs delays nothing else."""
    over = threading.Event()

    def repeat() -> None:
        watch, seconds = StoreWatch(store), EVERY_SECONDS
        while not over.wait(seconds):
            with edge("store_watch_failed"):
                seconds = watch.look()

    thread = threading.Thread(target=repeat, name="store-watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
