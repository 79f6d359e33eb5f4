"""The conditions that make a service due, in words."""

from __future__ import annotations

from typing import assert_never

from lakewarden.planners.model.table import Policy, Scheduling
from lakewarden.planners.model.window import Weekday, Window
from lakewarden.planners.settings import format_duration


def due_when(policy: Policy) -> str:
    """Return what makes a service with this policy due: its trigger, or the plans of the writers of the table."""
    left_alone = f"a writer's plan has waited for {format_duration(policy.grace)}"
    match policy.schedule:
        case Scheduling.DAEMON:
            return policy.trigger.describe()
        case Scheduling.WRITER:
            return left_alone
        case Scheduling.BOTH:
            return f"{policy.trigger.describe()}, or {left_alone}"
        case _:
            assert_never(policy.schedule)


def hours(window: Window) -> str:
    """Return when a window is open: `22:00 to 06:00 UTC on mon, tue`."""
    days = (
        "" if window.days == frozenset(Weekday) else f" on {', '.join(day.name.lower() for day in sorted(window.days))}"
    )
    return f"{window.start:%H:%M} to {window.end:%H:%M} {window.zone.key}{days}"
