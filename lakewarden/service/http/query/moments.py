"""Moments in queries: RFC 3339, with a zone."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, AwareDatetime, BeforeValidator

_RFC_3339 = re.compile(
    r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d{1,9})?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)", re.ASCII
)

_FIRST = datetime(1900, 1, 1, tzinfo=UTC)
_LAST = datetime(2999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)


def _written(value: Any) -> Any:
    """Refuse what pydantic would take too, such as a number of seconds."""
    if isinstance(value, str) and _RFC_3339.fullmatch(value) is None:
        raise ValueError("a moment is written as 2026-11-23T12:00:00Z, with its zone")
    return value


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("the moment is beyond the years 1 to 9999 in UTC") from None


def with_room(moment: datetime) -> datetime:
    """Return a moment with room for a picture before and after it. Raises ValueError for another."""
    if not _FIRST <= moment <= _LAST:
        raise ValueError(f"the moment is not in the years {_FIRST.year} to {_LAST.year}")
    return moment


Moment = Annotated[AwareDatetime, BeforeValidator(_written), AfterValidator(_in_utc)]
"""A moment in UTC."""

ShownMoment = Annotated[Moment, AfterValidator(with_room)]
"""A moment in UTC that a page can show."""
