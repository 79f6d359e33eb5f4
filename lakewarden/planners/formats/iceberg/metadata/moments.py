"""When a thing is of an age: moments that may lie beyond all calendars. Pure."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

FOR_EVER = datetime.max.replace(tzinfo=UTC)
_FIRST = datetime.min.replace(tzinfo=UTC)


def after(age: timedelta) -> Callable[[datetime], datetime]:
    """Return a function from a time to the moment at which that time reaches this age. An age of 292 million years
    means "never", so the moment is `FOR_EVER`.
    """
    if age >= FOR_EVER - _FIRST:
        return lambda _: FOR_EVER
    last = FOR_EVER - age
    return lambda at: at + age if at < last else FOR_EVER


def later(at: datetime, age: timedelta) -> datetime:
    """Return when a time is of this age."""
    return after(age)(at)
