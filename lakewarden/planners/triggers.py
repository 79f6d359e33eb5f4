"""Triggers: rules over a backlog, composed with AllOf and AnyOf."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from lakewarden.planners.model.view import Backlog
from lakewarden.planners.settings import format_duration, format_size


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What a trigger says of a backlog: whether it fires, why, and when time alone would make it fire."""

    fires: bool
    reason: str
    again_at: datetime | None = None


class Trigger(Protocol):
    """A rule over a backlog."""

    def judge(self, backlog: Backlog, now: datetime) -> Verdict:
        """Say whether the backlog asks for the service. Pure."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class NumCommits:
    """Fires at `at_least` commits since the service last completed."""

    at_least: int

    def judge(self, backlog: Backlog, now: datetime) -> Verdict:
        """Count commits."""
        return Verdict(
            fires=backlog.commits >= self.at_least,
            reason=_counted(backlog.commits, self.at_least, "commits since the last one"),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class NumCommitsAfterLastRequest:
    """Fires at `at_least` commits since the service was last asked for, whether that has completed or not."""

    at_least: int

    def judge(self, backlog: Backlog, now: datetime) -> Verdict:
        """Count commits since the newest plan."""
        return Verdict(
            fires=backlog.commits_since_request >= self.at_least,
            reason=_counted(backlog.commits_since_request, self.at_least, "commits since the last request"),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeElapsed:
    """Fires when `at_least` has passed since the service last completed (else since the first commit)."""

    at_least: timedelta

    def judge(self, backlog: Backlog, now: datetime) -> Verdict:
        """Measure the time since the last completion. Without a commit since then it never fires."""
        if backlog.since is None or backlog.commits == 0:
            return Verdict(fires=False, reason="no commit since the last one")
        due_at = backlog.since + self.at_least
        passed = timedelta(seconds=max(0, int((now - backlog.since).total_seconds())))
        reason = _measured(
            format_duration(passed),
            format_duration(self.at_least),
            "since the last one",
            beyond=passed > self.at_least,
        )
        return Verdict(fires=now >= due_at, reason=reason, again_at=due_at)


@dataclass(frozen=True, kw_only=True, slots=True)
class NumRewrites:
    """Fires at `at_least` compactions and clusterings since the service last completed."""

    at_least: int

    def judge(self, backlog: Backlog, now: datetime) -> Verdict:
        """Count rewrites."""
        return Verdict(
            fires=backlog.rewrites >= self.at_least,
            reason=_counted(backlog.rewrites, self.at_least, "compactions or clusterings since the last one"),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class LogFiles:
    """Fires when a file group has `at_least` log files."""

    at_least: int

    def judge(self, backlog: Backlog, now: datetime) -> Verdict:
        """Look at the file group with the most log files."""
        if backlog.log_files is None:
            return Verdict(fires=False, reason="the number of log files is not known")
        return Verdict(
            fires=backlog.log_files >= self.at_least,
            reason=_counted(backlog.log_files, self.at_least, "log files in a file group"),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class LogBytes:
    """Fires when the log files of a file group have `at_least` bytes."""

    at_least: int

    def judge(self, backlog: Backlog, now: datetime) -> Verdict:
        """Look at the file group with the most bytes in log files."""
        if backlog.log_bytes is None:
            return Verdict(fires=False, reason="the size of the log files is not known")
        return Verdict(
            fires=backlog.log_bytes >= self.at_least,
            reason=_measured(
                format_size(backlog.log_bytes),
                format_size(self.at_least),
                "of log files in a file group",
                beyond=backlog.log_bytes > self.at_least,
            ),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class SmallFiles:
    """Fires at `at_least` small base files."""

    at_least: int

    def judge(self, backlog: Backlog, now: datetime) -> Verdict:
        """Count small files."""
        if backlog.small_files is None:
            return Verdict(fires=False, reason="the number of small files is not known")
        return Verdict(
            fires=backlog.small_files >= self.at_least,
            reason=_counted(backlog.small_files, self.at_least, "small files"),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class WhenAsked:
    """Never fires: a person asks for the service, or nobody does."""

    def judge(self, backlog: Backlog, now: datetime) -> Verdict:
        """Wait for a person."""
        return Verdict(fires=False, reason="it runs only when a person asks for it")


@dataclass(frozen=True, kw_only=True, slots=True)
class AllOf:
    """Fires when every one of `triggers` does."""

    triggers: tuple[Trigger, ...]

    def judge(self, backlog: Backlog, now: datetime) -> Verdict:
        """Ask them all; look again when the last clock among those still waiting has run out."""
        verdicts = [trigger.judge(backlog, now) for trigger in self.triggers]
        waiting = [v for v in verdicts if not v.fires]
        clocks = [v.again_at for v in waiting if v.again_at is not None]
        return Verdict(
            fires=not waiting,
            reason=" and ".join(v.reason for v in (waiting or verdicts)),
            again_at=max(clocks) if clocks and len(clocks) == len(waiting) else None,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class AnyOf:
    """Fires when one of `triggers` does."""

    triggers: tuple[Trigger, ...]

    def judge(self, backlog: Backlog, now: datetime) -> Verdict:
        """Ask them all; look again when the first clock runs out."""
        verdicts = [trigger.judge(backlog, now) for trigger in self.triggers]
        firing = [v for v in verdicts if v.fires]
        clocks = [v.again_at for v in verdicts if v.again_at is not None]
        return Verdict(
            fires=bool(firing),
            reason=" or ".join(v.reason for v in (firing or verdicts)),
            again_at=min(clocks) if clocks else None,
        )


def _counted(count: int, at_least: int, what: str) -> str:
    return _measured(str(count), str(at_least), what, beyond=count > at_least)


def _measured(found: str, at_least: str, what: str, *, beyond: bool) -> str:
    """Return how far a backlog is from what a trigger asks for, or beyond it."""
    return f"{found} {what} (the trigger is {at_least})" if beyond else f"{found} of {at_least} {what}"
