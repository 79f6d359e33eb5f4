"""The settings of the policy of one service of one table, with its trigger and its window."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import time
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from pydantic import BeforeValidator, Field, model_validator

from lakewarden.executors.profile import SessionKey
from lakewarden.planners.model.table import Scheduling
from lakewarden.planners.model.window import Weekday, Window
from lakewarden.planners.registry import FORMATS
from lakewarden.planners.settings import Duration, Settings, TimeZone, Within, shown
from lakewarden.planners.triggers import TRIGGERS, Composite, Trigger

# Triggers are written as `{num_commits: 5}`, or `{any_of: [{...}, {...}]}`. The names of the formats are accepted too.


def parse_trigger(value: Any) -> Trigger:
    """Return the trigger of `value`. Raises ValueError with the allowed values."""
    if isinstance(value, Trigger):
        return value
    if isinstance(value, str) and value in _STRATEGIES:
        return _STRATEGIES[value](None)
    if not isinstance(value, Mapping) or len(value) != 1:
        raise ValueError(f"a trigger is one of {', '.join(_WORDS)}, as in {{num_commits: 5}}")
    ((word, argument),) = value.items()
    if word not in _WORDS:
        raise ValueError(f"{shown(word)} is not a trigger: use one of {', '.join(_WORDS)}")
    try:
        return _WORDS[word](argument)
    except ValueError as wrong:
        raise ValueError(f"{word}: {wrong}") from wrong


def _reader_of(kind: type[Trigger]) -> Callable[[Any], Trigger]:
    if not issubclass(kind, Composite):
        return kind.read

    def read(argument: Any) -> Trigger:
        if not isinstance(argument, list) or not argument:
            raise ValueError("needs a list of triggers")
        return kind(triggers=tuple(parse_trigger(part) for part in argument))

    return read


_STRATEGIES: Mapping[str, Callable[[Any], Trigger]] = {
    word: read for FORMAT in FORMATS.values() for word, read in FORMAT.trigger_strategies.items()
}

_WORDS: Mapping[str, Callable[[Any], Trigger]] = {
    **{kind.word: _reader_of(kind) for kind in TRIGGERS if kind.word is not None},
    **_STRATEGIES,
}

TriggerSetting = Annotated[Any, BeforeValidator(parse_trigger)]


# Windows are written as `{start: "22:00", end: "06:00", days: [sat, sun]}`.


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
        raise ValueError(f"{shown(value)} is not a time of day, such as '22:00'") from wrong


def _weekday(value: Any) -> Weekday:
    if isinstance(value, str) and value.upper() in Weekday.__members__:
        return Weekday[value.upper()]
    raise ValueError(f"{shown(value)} is not a day: use one of {', '.join(day.name.lower() for day in Weekday)}")


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


class ServiceSettings(Settings):
    """The policy of one service of one table."""

    trigger: TriggerSetting | None = None
    """When it is due: num_commits, num_commits_after_last_request, time_elapsed, log_files, log_bytes, small_files, or
    all_of / any_of of these. The default is 5 commits for a compaction, and 1 for a clean.
    """

    schedule: Scheduling = Scheduling.DAEMON
    """The author of the plans: `daemon` (Lakewarden plans), `writer` (the writers plan, and Lakewarden executes),
    `both`.
    """

    grace: Annotated[Duration, Within("1s", "30d")] = Field(default="10m", validate_default=True)
    """How long Lakewarden leaves a plan of another author alone before it takes the plan up."""

    window: WindowSettings | None = Field(default=None, examples=['{start: "22:00", end: "06:00"}'])
    """The hours in which it may be planned. The default is always."""

    asynchronous: bool = Field(default=True, alias="async")
    """Clean only. `true`: it runs beside a compaction, and the compaction waits for it before its commit. `false`: it
    runs after each compaction instead, and needs no trigger.
    """

    priority: Annotated[int, Within(-100, 100)] | None = None
    """The priority if slots are few. The default is that of its table. A clustering or a log compaction begins nothing
    while a compaction of its table waits, unless its priority is higher.
    """

    spark: str | None = None
    """The `spark` profile with the workers that carry it out. The default is that of the table. So a large clustering
    can have a JVM with more memory, or a cluster, and takes no slot from other services.
    """

    session: dict[SessionKey, str] = Field(default_factory=dict)
    """Spark configuration of the session of its runs. It is added to that of the profile. Only settings of a session
    are allowed, such as `spark.sql.shuffle.partitions`. Memory and cores belong to a JVM, and so to the profile.
    """

    options: dict[str, Any] = Field(default_factory=dict)
    """The options of the service, in the terms of the format."""
