"""Whether the store can be written. A daemon that has nothing to keep would not find out that a disk is full."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from lakewarden.executors.edge import edge
from lakewarden.planners.model.errors import LakewardenError
from lakewarden.service.store.port import Store

log = structlog.get_logger(__name__)

EVERY_SECONDS = 5.0

AGAIN_SECONDS = 1.0
"""How soon a store that could not be written is tried again."""


class StoreWatch:
    """Tries the store at intervals. The log has one line for each change."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._told = False

    def look(self) -> float:
        """Try to write, and return the seconds until the next look. Any error that the store has is in the log."""
        try:
            self._store.check_writable()
        except LakewardenError as error:
            if not self._told:
                log.warning("store_unwritable", error=str(error))
            self._told = True
            return AGAIN_SECONDS
        if self._told:
            log.info("store_writable_again")
        self._told = False
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
