"""Housekeeping: what the store no longer has to keep goes, a little at a time, so that nobody waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import structlog
from apscheduler.schedulers.background import BackgroundScheduler

from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.table import Table, TableId
from lakewarden.service.store.port import Store

log = structlog.get_logger(__name__)

EVERY = timedelta(hours=1)

FIRST = timedelta(minutes=5)
"""So long after the start: a daemon that is often restarted comes to it, too."""

BREATH_SECONDS = 0.05
"""Between two steps, in which everybody else may write."""


def tidy(
    store: Store,
    *,
    registered: Mapping[TableId, Table],
    at: datetime,
    keep: timedelta,
    pause: Callable[[float], bool],
) -> int | None:
    """Forget what is older than `keep`, with a breath between any two steps; return how many runs went.

    `pause` waits for so many seconds, and returns whether to end early. None: the store has not answered.
    """
    forgotten = 0
    locations = {table.id: table.location for table in registered.values()}
    try:
        for runs in store.forget(registered=locations, at=at, keep=keep):
            forgotten += runs
            if pause(BREATH_SECONDS):
                break
    except TemporaryError as trouble:
        log.warning("store_trouble", error=str(trouble))
        return None
    return forgotten


@contextmanager
def housekeeping(store: Store, clock: Clock, *, registered: Mapping[TableId, Table], keep: timedelta) -> Iterator[None]:
    """Tidy the store once an hour, for as long as the bracket is open. `registered` is read anew each time."""
    over = threading.Event()

    def once() -> None:
        forgotten = tidy(store, registered=registered, at=clock.now(), keep=keep, pause=over.wait)
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
