"""The time axis of a picture: the window that it shows, and its ticks. Pure. All times are UTC."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from lakewarden.service.reporting.picture.bars import Bar

SPANS: dict[str, timedelta] = {
    "1m": timedelta(minutes=1),
    "10m": timedelta(minutes=10),
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "1d": timedelta(days=1),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
    "1y": timedelta(days=365),
}
"""The lengths of a window that one can choose, by their names."""

_STEPS = (
    *(timedelta(seconds=count) for count in (1, 5, 10, 30)),
    *(timedelta(minutes=count) for count in (1, 2, 5, 10, 30)),
    *(timedelta(hours=count) for count in (1, 2, 4, 12)),
    *(timedelta(days=count) for count in (1, 2, 7, 30, 60, 365)),
)
_TICKS = 8
_NEWEST = 60
_ROUND = 200
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeRange:
    """The time that a picture shows."""

    begin: datetime
    end: datetime

    @property
    def length(self) -> timedelta:
        """How long it is."""
        return self.end - self.begin

    def place(self, moment: datetime) -> float:
        """Return where a moment is: 0 at the begin of the window, 1 at its end, and less or more outside."""
        return (moment - self.begin) / self.length

    def shows(self, bar: Bar) -> bool:
        """Whether a part of a bar is in the window."""
        return bar.begun_at <= self.end and (bar.ended_at is None or bar.ended_at >= self.begin)


def fitting(found: Sequence[Bar], *, now: datetime) -> TimeRange:
    """Return the shortest window until `now` with the newest bars."""
    newest = sorted((bar.begun_at for bar in found), reverse=True)[:_NEWEST]
    needed = now - newest[-1] if newest else timedelta(0)
    length = next((span for span in SPANS.values() if span >= needed), needed)
    return TimeRange(begin=now - length, end=now)


def steady(window: TimeRange) -> TimeRange:
    """Return a window that ends at most a two-hundredth of its length later, at a round moment.

    So a picture until now does not change with each second in which nothing has happened.
    """
    step = max(timedelta(seconds=1), window.length / _ROUND)
    end = _EPOCH + -((_EPOCH - window.end) // step) * step
    return TimeRange(begin=end - window.length, end=end)


def ticks(window: TimeRange) -> Sequence[tuple[datetime, str]]:
    """Return at most eight moments of a window that are round, each with its label."""
    step = next((step for step in _STEPS if window.length / step <= _TICKS), _STEPS[-1])
    first = _EPOCH + -((_EPOCH - window.begin) // step) * step
    first = first if first >= window.begin else first + step
    moments = [first + number * step for number in range(_TICKS + 1)]
    return [(moment, _label(moment, step)) for moment in moments if moment <= window.end]


def _label(moment: datetime, step: timedelta) -> str:
    if step >= timedelta(days=60):
        return f"{moment:%Y-%m-%d}"
    if step >= timedelta(days=1) or (moment.hour, moment.minute, moment.second) == (0, 0, 0):
        return f"{moment:%m-%d}"
    return f"{moment:%H:%M:%S}" if step < timedelta(minutes=1) else f"{moment:%H:%M}"
