"""Housekeeping of the history: old changes of decisions are deleted in small steps."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from lakewarden.service.config.daemon.history import HistorySettings
from lakewarden.service.store.history import HistoryStore

_AT_ONCE = 200


def tidy_history(
    store: HistoryStore, *, at: datetime, settings: HistorySettings, pause: Callable[[], bool]
) -> int | None:
    """Delete what is older than the settings keep, or too much. Return how many rows, or None if `pause` said to end.

    Raises TemporaryError if the store does not answer.
    """
    deleted, after = 0, 0
    while True:
        last, some = store.forget_decision_changes(
            before=at - settings.keep, keep=settings.decisions, after=after, most=_AT_ONCE
        )
        deleted += some
        if last is None:
            break
        after = last
        if pause():
            return None
    return deleted
