"""Triggers: rules over a backlog, composed with AllOf and AnyOf.

A class contains everything about a trigger: when it fires, its description in words, how it is written down, and what a
format has to count for it. A new trigger is a class, and its name in `TRIGGERS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar, Self, get_type_hints

from pydantic import TypeAdapter, ValidationError

from lakewarden.planners.model.printable import counted, span
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
        hints = get_type_hints(cls, include_extras=True)
        [name] = (field.name for field in fields(cls))
        try:
            return cls(**{name: TypeAdapter(hints[name]).validate_python(argument)})
        except ValidationError as wrong:
            error = wrong.errors()[0]
            reason = error["ctx"]["error"] if error["type"] == "value_error" else f"{shown(argument)} is no number"
            raise ValueError(reason) from wrong


Count = Annotated[int, Within(1, 1_000_000)]


@dataclass(frozen=True, kw_only=True, slots=True)
class NumCommits(Trigger):
    """Fires at `at_least` commits since the service last completed."""

    word: ClassVar = "num_commits"
    at_least: Count

    def judge(self, backlog: Backlog, now: datetime) -> TriggerJudgement:
        """Count commits."""
        return TriggerJudgement(
            fires=backlog.commits >= self.at_least,
            reason=_counted(backlog.commits, self.at_least, "commits since the last one"),
        )

    def describe(self) -> str:
        """Return `10 commits since the last one`."""
        return f"{counted(self.at_least, 'commit')} since the last one"


@dataclass(frozen=True, kw_only=True, slots=True)
class NumCommitsAfterLastRequest(Trigger):
    """Fires at `at_least` commits since the service was last requested, whether that request has completed or not."""

    word: ClassVar = "num_commits_after_last_request"
    at_least: Count

    def judge(self, backlog: Backlog, now: datetime) -> TriggerJudgement:
        """Count commits since the newest plan."""
        return TriggerJudgement(
            fires=backlog.commits_since_request >= self.at_least,
            reason=_counted(backlog.commits_since_request, self.at_least, "commits since the last request"),
        )

    def describe(self) -> str:
        """Return `10 commits since the last request`."""
        return f"{counted(self.at_least, 'commit')} since the last request"


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
class NumRewrites(Trigger):
    """Fires at `at_least` compactions and clusterings since the service last completed."""

    at_least: Count

    def judge(self, backlog: Backlog, now: datetime) -> TriggerJudgement:
        """Count rewrites."""
        return TriggerJudgement(
            fires=backlog.rewrites >= self.at_least,
            reason=_counted(backlog.rewrites, self.at_least, "compactions or clusterings since the last one"),
        )

    def describe(self) -> str:
        """Return `10 compactions or clusterings since the last one`."""
        once = self.at_least == 1
        rewrites = "a compaction or clustering" if once else f"{self.at_least} compactions or clusterings"
        return f"{rewrites} since the last one"


@dataclass(frozen=True, kw_only=True, slots=True)
class LogFiles(Trigger):
    """Fires when a file group has `at_least` log files."""

    word: ClassVar = "log_files"
    at_least: Count

    def judge(self, backlog: Backlog, now: datetime) -> TriggerJudgement:
        """Look at the file group with the most log files."""
        if backlog.log_files is None:
            return TriggerJudgement(fires=False, reason="the number of log files is not known")
        return TriggerJudgement(
            fires=backlog.log_files >= self.at_least,
            reason=_counted(backlog.log_files, self.at_least, "log files in a file group"),
        )

    def describe(self) -> str:
        """Return `10 log files in a file group`."""
        return f"{counted(self.at_least, 'log file')} in a file group"

    def counts_files(self) -> bool:
        """Return True."""
        return True


@dataclass(frozen=True, kw_only=True, slots=True)
class LogBytes(Trigger):
    """Fires when the log files of a file group have `at_least` bytes."""

    word: ClassVar = "log_bytes"
    at_least: Annotated[Size, Within("1B", "1024TiB")]

    def judge(self, backlog: Backlog, now: datetime) -> TriggerJudgement:
        """Look at the file group with the most bytes in log files."""
        if backlog.log_bytes is None:
            return TriggerJudgement(fires=False, reason="the size of the log files is not known")
        return TriggerJudgement(
            fires=backlog.log_bytes >= self.at_least,
            reason=_measured(
                format_size(backlog.log_bytes),
                format_size(self.at_least),
                "of log files in a file group",
                beyond=backlog.log_bytes > self.at_least,
            ),
        )

    def describe(self) -> str:
        """Return `1GiB of log files in a file group`."""
        return f"{format_size(self.at_least)} of log files in a file group"

    def counts_files(self) -> bool:
        """Return True."""
        return True


@dataclass(frozen=True, kw_only=True, slots=True)
class SmallFiles(Trigger):
    """Fires at `at_least` small base files."""

    word: ClassVar = "small_files"
    at_least: Count

    def judge(self, backlog: Backlog, now: datetime) -> TriggerJudgement:
        """Count small files."""
        if backlog.small_files is None:
            return TriggerJudgement(fires=False, reason="the number of small files is not known")
        return TriggerJudgement(
            fires=backlog.small_files >= self.at_least,
            reason=_counted(backlog.small_files, self.at_least, "small files"),
        )

    def describe(self) -> str:
        """Return `10 small files`."""
        return counted(self.at_least, "small file")

    def counts_files(self) -> bool:
        """Return True."""
        return True


@dataclass(frozen=True, kw_only=True, slots=True)
class WhenAsked(Trigger):
    """Never fires. The service runs only if an operator asks for it."""

    def judge(self, backlog: Backlog, now: datetime) -> TriggerJudgement:
        """Return that it does not fire."""
        return TriggerJudgement(fires=False, reason="it runs only when a person asks for it")

    def describe(self) -> str:
        """Return its description."""
        return "a person asks for it"


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


def _counted(count: int, at_least: int, what: str) -> str:
    return _measured(str(count), str(at_least), what, beyond=count > at_least)


def _measured(measure: str, at_least: str, what: str, *, beyond: bool) -> str:
    """Return how far a backlog is from what a trigger asks for, or beyond it."""
    return f"{measure} {what} (the trigger is {at_least})" if beyond else f"{measure} of {at_least} {what}"
