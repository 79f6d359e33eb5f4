"""Triggers, policies and windows in words."""

from __future__ import annotations

from datetime import time, timedelta
from zoneinfo import ZoneInfo

import pytest

from lakewarden.planners.model.table import Policy, Scheduling
from lakewarden.planners.model.window import Weekday, Window
from lakewarden.planners.triggers import (
    AllOf,
    AnyOf,
    LogBytes,
    NumCommits,
    NumCommitsAfterLastRequest,
    NumRewrites,
    TimeElapsed,
    Trigger,
)
from lakewarden.service.reporting.explain.assembly import due_when, hours


@pytest.mark.parametrize(
    ("trigger", "words"),
    [
        (NumCommits(at_least=5), "5 commits since the last one"),
        (NumCommits(at_least=1), "1 commit since the last one"),
        (NumRewrites(at_least=1), "1 compaction or clustering since the last one"),
        (LogBytes(at_least=2**30), "1GiB of log files in a file group"),
        (
            AnyOf(
                triggers=(
                    NumCommits(at_least=10),
                    AllOf(triggers=(NumCommitsAfterLastRequest(at_least=1), TimeElapsed(at_least=timedelta(hours=1)))),
                )
            ),
            "10 commits since the last one or "
            "(1 commit since the last request and (a commit, and 1h since the last one))",
        ),
    ],
)
def test_triggers_read_as_a_person_would_say_them(trigger: Trigger, words: str) -> None:
    """What is composed of several is set in brackets, so that "and" and "or" cannot be mixed up."""
    assert trigger.describe() == words


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        (Scheduling.DAEMON, "5 commits since the last one"),
        (Scheduling.WRITER, "a writer's plan has waited for 10m"),
        (Scheduling.BOTH, "5 commits since the last one, or a writer's plan has waited for 10m"),
    ],
)
def test_where_writers_plan_their_plans_make_it_due(schedule: Scheduling, words: str) -> None:
    """A trigger that is never asked is not shown."""
    assert due_when(Policy(trigger=NumCommits(at_least=5), schedule=schedule)) == words


def test_a_window_says_its_hours_its_zone_and_its_days() -> None:
    """Days are named only where they are not all."""
    window = Window(start=time(22), end=time(6), zone=ZoneInfo("Europe/Berlin"))

    assert hours(window) == "22:00 to 06:00 Europe/Berlin"
    weekend = Window(start=time(8), end=time(20), days=frozenset({Weekday.SUN, Weekday.SAT}))
    assert hours(weekend) == "08:00 to 20:00 UTC on sat, sun"
