"""The names of Hudi's own trigger strategies (`hoodie.compact.inline.trigger.strategy`), and their triggers.

A name alone has Hudi's default numbers. With numbers it is written as
`{NUM_OR_TIME: {num_commits: 5, time_elapsed: 1h}}`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from lakewarden.planners.triggers import AllOf, AnyOf, NumCommits, NumCommitsAfterLastRequest, TimeElapsed, Trigger

_COMMITS = 5  # hoodie.compact.inline.max.delta.commits
_ELAPSED = timedelta(hours=1)  # hoodie.compact.inline.max.delta.seconds


def _commits(argument: Any) -> Trigger:
    return NumCommits.read(_COMMITS if argument is None else argument)


def _after_request(argument: Any) -> Trigger:
    return NumCommitsAfterLastRequest.read(_COMMITS if argument is None else argument)


def _elapsed(argument: Any) -> Trigger:
    return TimeElapsed.read(_ELAPSED if argument is None else argument)


def _commits_and_time(argument: Any) -> tuple[Trigger, Trigger]:
    argument = {} if argument is None else argument
    if not isinstance(argument, Mapping) or not set(argument) <= {"num_commits", "time_elapsed"}:
        raise ValueError("needs num_commits and time_elapsed, as in {num_commits: 5, time_elapsed: 1h}")
    return _commits(argument.get("num_commits")), _elapsed(argument.get("time_elapsed"))


STRATEGIES: Mapping[str, Callable[[Any], Trigger]] = {
    "NUM_COMMITS": _commits,
    "NUM_COMMITS_AFTER_LAST_REQUEST": _after_request,
    "TIME_ELAPSED": _elapsed,
    "NUM_AND_TIME": lambda argument: AllOf(triggers=_commits_and_time(argument)),
    "NUM_OR_TIME": lambda argument: AnyOf(triggers=_commits_and_time(argument)),
}
