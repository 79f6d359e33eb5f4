"""A window: the hours of the week in which something may happen."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from enum import IntEnum
from zoneinfo import ZoneInfo


class Weekday(IntEnum):
    """The days of the week, numbered as in `datetime.weekday`."""

    MON = 0
    TUE = 1
    WED = 2
    THU = 3
    FRI = 4
    SAT = 5
    SUN = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """From `start` until `end` on each of `days`, in the local time of `zone`.

    If `end` is not after `start`, the window runs past midnight. It belongs to the day on which it starts.
    """

    start: time
    end: time
    days: frozenset[Weekday] = frozenset(Weekday)
    zone: ZoneInfo = ZoneInfo("UTC")

    def contains(self, moment: datetime) -> bool:
        """Whether a moment (an aware datetime) lies in the window. The start belongs to it, the end does not."""
        return any(start <= moment < end for start, end in self._around(moment, days=1))

    def next_start(self, moment: datetime) -> datetime | None:
        """Return the first start after a moment, in UTC. None for a window without days."""
        starts = [start for start, _ in self._around(moment, days=8) if start > moment]
        return min(starts, default=None)

    def _around(self, moment: datetime, *, days: int) -> list[tuple[datetime, datetime]]:
        """Return the windows that begin from the day before until `days` after, in UTC."""
        today = moment.astimezone(self.zone).date()
        openings = []
        for offset in range(-1, days + 1):
            day = today + timedelta(days=offset)
            if Weekday(day.weekday()) in self.days:
                last = day if self.end > self.start else day + timedelta(days=1)
                start = datetime.combine(day, self.start, self.zone).astimezone(UTC)
                openings.append((start, datetime.combine(last, self.end, self.zone).astimezone(UTC)))
        return openings
