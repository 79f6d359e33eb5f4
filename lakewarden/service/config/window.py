"""How windows are written in the configuration: `{start: "22:00", end: "06:00", days: [sat, sun]}`."""

from __future__ import annotations

from datetime import time
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from pydantic import BeforeValidator, Field, model_validator

from lakewarden.planners.model.window import Weekday, Window
from lakewarden.planners.settings import Settings, TimeZone, shown


def _hour(value: Any) -> time:
    """Read `HH:MM`. Some YAML readers turn an unquoted 22:00 into a number of base sixty. Such a number is
    turned back.
    """
    if isinstance(value, time):
        return value
    text = f"{value // 60:02}:{value % 60:02}" if isinstance(value, int) and not isinstance(value, bool) else value
    try:
        return time.fromisoformat(text)
    except (TypeError, ValueError) as wrong:
        raise ValueError(f"{shown(value)} is no time of day, as '22:00' is") from wrong


def _weekday(value: Any) -> Weekday:
    if isinstance(value, str) and value.upper() in Weekday.__members__:
        return Weekday[value.upper()]
    raise ValueError(f"{shown(value)} is no day: it is one of {', '.join(day.name.lower() for day in Weekday)}")


class WindowSettings(Settings):
    """The hours of the week in which a service may be planned."""

    start: Annotated[time, BeforeValidator(_hour)]
    """The time at which it opens, `HH:MM`."""

    end: Annotated[time, BeforeValidator(_hour)]
    """The time at which it closes. If it is not after the start, it is on the next day."""

    days: tuple[Annotated[Weekday, BeforeValidator(_weekday)], ...] = Field(default=tuple(Weekday), min_length=1)
    """The days on which it opens (mon, tue, wed, thu, fri, sat, sun). The default is all days."""

    timezone: TimeZone = "UTC"
    """The time zone, as in the IANA database."""

    @model_validator(mode="after")
    def _has_a_length(self) -> WindowSettings:
        if self.start == self.end:
            raise ValueError(f"start: and end: are both {self.start:%H:%M}: remove the window to allow every hour")
        return self

    def window(self) -> Window:
        """Return the window of the settings."""
        return Window(start=self.start, end=self.end, days=frozenset(self.days), zone=ZoneInfo(self.timezone))
