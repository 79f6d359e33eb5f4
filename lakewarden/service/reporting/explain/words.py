"""What makes a service due, in words."""

from __future__ import annotations

from typing import assert_never, cast

from lakewarden.planners.model.table import Policy, Scheduling
from lakewarden.planners.model.window import Weekday, Window
from lakewarden.planners.settings import format_duration, format_size
from lakewarden.planners.triggers import (
    AllOf,
    AnyOf,
    LogBytes,
    LogFiles,
    NumCommits,
    NumCommitsAfterLastRequest,
    NumRewrites,
    SmallFiles,
    TimeElapsed,
    Trigger,
    WhenAsked,
)

_Rule = (
    NumCommits | NumCommitsAfterLastRequest | TimeElapsed | NumRewrites | LogFiles | LogBytes | SmallFiles | WhenAsked
)


def due_when(policy: Policy) -> str:
    """Return what makes a service with this policy due: its trigger, or the plans of the table's writers."""
    left_alone = f"a writer's plan has waited for {format_duration(policy.grace)}"
    match policy.schedule:
        case Scheduling.DAEMON:
            return describe(policy.trigger)
        case Scheduling.WRITER:
            return left_alone
        case Scheduling.BOTH:
            return f"{describe(policy.trigger)}, or {left_alone}"
        case _:
            assert_never(policy.schedule)


def describe(trigger: Trigger) -> str:
    """Return what a trigger asks for: `10 commits since the last one or 1GiB of log files in a file group`."""
    match trigger:
        case AllOf():
            return " and ".join(_part(part) for part in trigger.triggers)
        case AnyOf():
            return " or ".join(_part(part) for part in trigger.triggers)
        case _:
            return _rule(cast("_Rule", trigger))


def _rule(rule: _Rule) -> str:
    match rule:
        case NumCommits():
            return f"{_count(rule.at_least, 'commit')} since the last one"
        case NumCommitsAfterLastRequest():
            return f"{_count(rule.at_least, 'commit')} since the last request"
        case TimeElapsed():
            return f"a commit, and {format_duration(rule.at_least)} since the last one"
        case NumRewrites():
            once = rule.at_least == 1
            rewrites = "a compaction or clustering" if once else f"{rule.at_least} compactions or clusterings"
            return f"{rewrites} since the last one"
        case LogFiles():
            return f"{_count(rule.at_least, 'log file')} in a file group"
        case LogBytes():
            return f"{format_size(rule.at_least)} of log files in a file group"
        case SmallFiles():
            return _count(rule.at_least, "small file")
        case WhenAsked():
            return "a person asks for it"
        case _:
            assert_never(rule)


def _part(trigger: Trigger) -> str:
    nested = isinstance(trigger, AllOf | AnyOf | TimeElapsed)
    return f"({describe(trigger)})" if nested else describe(trigger)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def hours(window: Window) -> str:
    """Return when a window is open: `22:00 to 06:00 UTC on mon, tue`."""
    days = (
        "" if window.days == frozenset(Weekday) else f" on {', '.join(day.name.lower() for day in sorted(window.days))}"
    )
    return f"{window.start:%H:%M} to {window.end:%H:%M} {window.zone.key}{days}"
