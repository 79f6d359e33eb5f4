"""Instants are times of a wall clock, written without its zone: `yyyyMMddHHmmssSSS`, or to the second before 0.11."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache

_DIGITS_TO_THE_SECOND = 14
_DIGITS_TO_THE_MILLISECOND = 17
_BEFORE_ALL = datetime(1970, 1, 1)  # noqa: DTZ001 - wall clocks have no zone here
_AFTER_ALL = 9000


def wall_time(text: str) -> datetime:
    """Return what the wall clock showed, without a zone.

    Times to the second stand for their last millisecond, as Hudi 1.x reads them. Digits beyond the millisecond are
    the metadata table's own. Instants that are no times (`00000000000001`, the bootstrap) come before all. They are of
    1970, so that any zone and any difference can be applied.
    """
    if _DIGITS_TO_THE_SECOND < len(text) < _DIGITS_TO_THE_MILLISECOND:
        return _BEFORE_ALL
    milliseconds = int(text[14:17]) if len(text) > _DIGITS_TO_THE_SECOND else 999
    try:
        shown = datetime(  # noqa: DTZ001 - the zone is not known here
            int(text[:4]), int(text[4:6]), int(text[6:8]), int(text[8:10]), int(text[10:12]), int(text[12:14]),
            milliseconds * 1000,
        )  # fmt: skip
    except ValueError:
        return _BEFORE_ALL
    return shown if _BEFORE_ALL.year < shown.year < _AFTER_ALL else _BEFORE_ALL


def to_utc(text: str, zone: tzinfo, *, near: datetime | None = None) -> datetime:
    """Return the moment an instant names, read in `zone`, in UTC.

    In the hour that summer time gives back, the wall clock shows each time twice. Then it is the moment nearer to
    `near`, which is when a file of the instant was written. Without `near` it is the first.
    """
    first, second = _moments(text, zone)
    if near is None or first == second:
        return first
    return min(first, second, key=lambda moment: abs(moment - near))


@lru_cache(maxsize=2**14)
def _moments(text: str, zone: tzinfo) -> tuple[datetime, datetime]:
    """Return the moments at which the wall clock showed an instant's time. Usually they are the same."""
    shown = wall_time(text)
    if shown == _BEFORE_ALL:
        return _BEFORE_ALL.replace(tzinfo=UTC), _BEFORE_ALL.replace(tzinfo=UTC)
    first, second = (shown.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    return first, second


def shown_twice_until(moment: datetime, zone: tzinfo) -> datetime | None:
    """Return when the wall clock of `zone` no longer shows times twice, if it shows that of `moment` twice; else None.

    It is the end of the second time. Within one JVM, Hudi's `HoodieInstantTimeGenerator` waits under the table's lock
    until its clock shows a later time than the one before. After an instant in the first time it waits through all of
    the second (run, docs/hudi.md).
    """
    shown = moment.astimezone(zone).replace(tzinfo=None)
    first, second = (shown.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    back = second - first
    if back <= timedelta(0):
        return None
    before, after = first, second
    while after - before > timedelta(seconds=1):  # between them the clock is put back
        middle = before + (after - before) / 2
        before, after = (middle, after) if middle.astimezone(zone).fold == 0 else (before, middle)
    return after.replace(microsecond=0) + back


def instant_time(moment: datetime, zone: tzinfo) -> str:
    """Return how a writer in `zone` writes a moment."""
    shown = moment.astimezone(zone)
    return f"{shown:%Y%m%d%H%M%S}{shown.microsecond // 1000:03d}"
