"""Triggers: rules over a backlog, composed with AllOf and AnyOf.

A class contains everything about a trigger: when it fires, its description in words, how it is written down, and what a
format has to count for it. A new trigger is a class, and its name in `TRIGGERS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from functools import cache
from typing import Annotated, Any, ClassVar, Self, get_type_hints

from pydantic import TypeAdapter, ValidationError

from lakewarden.planners.model.printable import span
from lakewarden.planners.model.view import Backlog
from lakewarden.planners.settings import Duration, Size, Within, format_duration, format_size, shown


@dataclass(frozen=True, kw_only=True, slots=True)
class TriggerJudgement:
    """What a trigger says of a backlog: whether it fires, why, and when time alone would make it fire."""

    fires: bool
    reason: str
    again_at: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Trigger(ABC):
    """A rule over a backlog. Pure.

    `word` is its key in the configuration. None if it has no key. `compound`: its description is put in brackets among
    others.
    """

    word: ClassVar[str | None] = None
    compound: ClassVar[bool] = False

    @abstractmethod
    def judge(self, backlog: Backlog, now: datetime) -> TriggerJudgement:
        """Return whether the backlog makes the service due."""

    @abstractmethod
    def describe(self) -> str:
        """Return its description: `10 commits since the last one or 1GiB of log files in a file group`."""

    def counts_files(self) -> bool:
        """Whether it needs to know the table's files, and not only its commits."""
        return False

    @classmethod
    def read(cls, argument: Any) -> Self:
        """Return the trigger for `{word: argument}`, by the type of its one field.

        Raises ValueError in the words of that type.
        """
        name, type_of_argument = _argument(cls)
        try:
            return cls(**{name: type_of_argument.validate_python(argument)})
        except ValidationError as wrong:
            error = wrong.errors()[0]
            reason = error["ctx"]["error"] if error["type"] == "value_error" else f"{shown(argument)} is not a number"
            raise ValueError(reason) from wrong


@cache
def _argument(kind: type[Trigger]) -> tuple[str, TypeAdapter[Any]]:
    """Return the one field of a trigger, and its type. To make a type takes longer than to read all else of a table."""
    [name] = (field.name for field in fields(kind))
    return name, TypeAdapter(get_type_hints(kind, include_extras=True)[name])


Count = Annotated[int, Within(1, 1_000_000)]


@dataclass(frozen=True, kw_only=True, slots=True)
class CountTrigger(Trigger):
    """Fires when a number of the backlog is at least `at_least`.

    `figure` is the field of the backlog. `unit` says what is counted, `units` says it of several, and `unknown` of a
    number that the format does not know. `of_files`: it is a number of the table's files.
    """

    figure: ClassVar[str]
    unit: ClassVar[str]
    units: ClassVar[str]
    unknown: ClassVar[str] = ""
    of_files: ClassVar[bool] = False
    at_least: Count

    @staticmethod
    def written(number: int) -> str:
        """Return a number as people read it."""
        return str(number)

    def judge(self, backlog: Backlog, now: datetime) -> TriggerJudgement:
        """Compare the number. Time does not count."""
        number = getattr(backlog, self.figure)
        if number is None:
            return TriggerJudgement(fires=False, reason=f"{self.unknown} is not known")
        beyond = number > self.at_least
        reason = _measured(self.written(number), self.written(self.at_least), self.units, beyond=beyond)
        return TriggerJudgement(fires=number >= self.at_least, reason=reason)

    def describe(self) -> str:
        """Return `10 commits since the last one`."""
        return f"{self.written(self.at_least)} {self.unit if self.at_least == 1 else self.units}"

    def counts_files(self) -> bool:
        """Whether it is a number of files."""
        return self.of_files


@dataclass(frozen=True, kw_only=True, slots=True)
class NumCommits(CountTrigger):
    """Counts the commits since the service last completed."""

    word: ClassVar = "num_commits"
    figure: ClassVar = "commits"
    unit: ClassVar = "commit since the last one"
    units: ClassVar = "commits since the last one"


@dataclass(frozen=True, kw_only=True, slots=True)
class NumCommitsAfterLastRequest(CountTrigger):
    """Counts the commits since the service was last requested, whether that request has completed or not."""

    word: ClassVar = "num_commits_after_last_request"
    figure: ClassVar = "commits_since_request"
    unit: ClassVar = "commit since the last request"
    units: ClassVar = "commits since the last request"


@dataclass(frozen=True, kw_only=True, slots=True)
class NumRewrites(CountTrigger):
    """Counts the compactions and clusterings since the service last completed."""

    figure: ClassVar = "rewrites"
    unit: ClassVar = "compaction or clustering since the last one"
    units: ClassVar = "compactions or clusterings since the last one"


@dataclass(frozen=True, kw_only=True, slots=True)
class LogFiles(CountTrigger):
    """Counts the log files of the file group with the most."""

    word: ClassVar = "log_files"
    figure: ClassVar = "log_files"
    unit: ClassVar = "log file in a file group"
    units: ClassVar = "log files in a file group"
    unknown: ClassVar = "the number of log files"
    of_files: ClassVar = True


@dataclass(frozen=True, kw_only=True, slots=True)
class LogBytes(CountTrigger):
    """Measures the log files of the file group with the most bytes in them."""

    word: ClassVar = "log_bytes"
    figure: ClassVar = "log_bytes"
    unit: ClassVar = "of log files in a file group"
    units: ClassVar = "of log files in a file group"
    unknown: ClassVar = "the size of the log files"
    of_files: ClassVar = True
    at_least: Annotated[Size, Within("1B", "1024TiB")]

    @staticmethod
    def written(number: int) -> str:
        """Return a size with its unit."""
        return format_size(number)


@dataclass(frozen=True, kw_only=True, slots=True)
class SmallFiles(CountTrigger):
    """Counts the small base files."""

    word: ClassVar = "small_files"
    figure: ClassVar = "small_files"
    unit: ClassVar = "small file"
    units: ClassVar = "small files"
    unknown: ClassVar = "the number of small files"
    of_files: ClassVar = True


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeElapsed(Trigger):
    """Fires when `at_least` has passed since the service last completed (else since the first commit)."""

    word: ClassVar = "time_elapsed"
    compound: ClassVar = True
    at_least: Annotated[Duration, Within("1s", "3650d")]

    def judge(self, backlog: Backlog, now: datetime) -> TriggerJudgement:
        """Measure the time since the last completion. Without a commit since then it never fires."""
        if backlog.since is None or backlog.commits == 0:
            return TriggerJudgement(fires=False, reason="no commit since the last one")
        due_at = backlog.since + self.at_least
        passed = timedelta(seconds=max(0, int((now - backlog.since).total_seconds())))
        reason = _measured(
            span(passed.total_seconds()),
            format_duration(self.at_least),
            "since the last one",
            beyond=passed > self.at_least,
        )
        return TriggerJudgement(fires=now >= due_at, reason=reason, again_at=due_at)

    def describe(self) -> str:
        """Return `a commit, and 1h since the last one`."""
        return f"a commit, and {format_duration(self.at_least)} since the last one"


@dataclass(frozen=True, kw_only=True, slots=True)
class WhenAsked(Trigger):
    """Never fires. The service runs only if an operator asks for it."""

    def judge(self, backlog: Backlog, now: datetime) -> TriggerJudgement:
        """Return that it does not fire."""
        return TriggerJudgement(fires=False, reason="it runs only when requested manually")

    def describe(self) -> str:
        """Return its description."""
        return "requested manually"


@dataclass(frozen=True, kw_only=True, slots=True)
class Composite(Trigger):
    """Combines `triggers`. It is written as a list of them."""

    compound: ClassVar = True
    joined_by: ClassVar[str]
    triggers: tuple[Trigger, ...]

    def describe(self) -> str:
        """Return the descriptions of its triggers."""
        return f" {self.joined_by} ".join(
            f"({trigger.describe()})" if trigger.compound else trigger.describe() for trigger in self.triggers
        )

    def counts_files(self) -> bool:
        """Whether one of its triggers does."""
        return any(trigger.counts_files() for trigger in self.triggers)


@dataclass(frozen=True, kw_only=True, slots=True)
class AllOf(Composite):
    """Fires when every one of `triggers` does."""

    word: ClassVar = "all_of"
    joined_by: ClassVar = "and"

    def judge(self, backlog: Backlog, now: datetime) -> TriggerJudgement:
        """Judge all triggers. The time to judge again is the last one among the triggers that do not fire yet."""
        verdicts = [trigger.judge(backlog, now) for trigger in self.triggers]
        waiting = [v for v in verdicts if not v.fires]
        clocks = [v.again_at for v in waiting if v.again_at is not None]
        return TriggerJudgement(
            fires=not waiting,
            reason=" and ".join(v.reason for v in (waiting or verdicts)),
            again_at=max(clocks) if clocks and len(clocks) == len(waiting) else None,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class AnyOf(Composite):
    """Fires when one of `triggers` does."""

    word: ClassVar = "any_of"
    joined_by: ClassVar = "or"

    def judge(self, backlog: Backlog, now: datetime) -> TriggerJudgement:
        """Judge all triggers. The time to judge again is the first one."""
        verdicts = [trigger.judge(backlog, now) for trigger in self.triggers]
        firing = [v for v in verdicts if v.fires]
        clocks = [v.again_at for v in verdicts if v.again_at is not None]
        return TriggerJudgement(
            fires=bool(firing),
            reason=" or ".join(v.reason for v in (firing or verdicts)),
            again_at=min(clocks) if clocks else None,
        )


TRIGGERS: tuple[type[Trigger], ...] = (
    NumCommits,
    NumCommitsAfterLastRequest,
    TimeElapsed,
    NumRewrites,
    LogFiles,
    LogBytes,
    SmallFiles,
    WhenAsked,
    AllOf,
    AnyOf,
)
"""Every trigger, in the order in which a message lists those that can be written down."""


def _measured(measure: str, at_least: str, what: str, *, beyond: bool) -> str:
    """Return how far a backlog is from what a trigger asks for, or beyond it."""
    return f"{measure} {what} (the trigger is {at_least})" if beyond else f"{measure} of {at_least} {what}"
