"""How triggers are written in the configuration: `{num_commits: 5}`, `{any_of: [{...}, {...}]}`.

The names of Hudi's own trigger strategies (`hoodie.compact.inline.trigger.strategy`) are accepted for what they
compose: alone, with Hudi's default numbers, or with numbers, as in `{NUM_OR_TIME: {num_commits: 5, time_elapsed: 1h}}`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator, TypeAdapter, ValidationError

from lakewarden.planners.settings import Duration, Size, Within, shown
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
)

_COMMITS = 5  # hoodie.compact.inline.max.delta.commits
_ELAPSED = timedelta(hours=1)  # hoodie.compact.inline.max.delta.seconds


def parse_trigger(value: Any) -> Trigger:
    """Return the trigger that `value` writes down. Raises ValueError, saying what may stand there."""
    if isinstance(value, _TRIGGERS):
        return value
    if isinstance(value, str) and value in _STRATEGIES:
        return _STRATEGIES[value](None)
    if not isinstance(value, Mapping) or len(value) != 1:
        raise ValueError(f"a trigger is one of {', '.join(_KINDS)}, as in {{num_commits: 5}}")
    ((kind, argument),) = value.items()
    if kind not in _KINDS:
        raise ValueError(f"{shown(kind)} is no trigger: it is one of {', '.join(_KINDS)}")
    try:
        return _KINDS[kind](argument)
    except ValueError as wrong:
        raise ValueError(f"{kind}: {wrong}") from wrong


_COUNT = TypeAdapter(Annotated[int, Within(1, 1_000_000)])
_SIZE = TypeAdapter(Annotated[Size, Within("1B", "1024TiB")])
_TIME = TypeAdapter(Annotated[Duration, Within("1s", "3650d")])


def _read(kind: TypeAdapter[Any], argument: Any) -> Any:
    """Return what an argument says. Raises ValueError in the words of its type."""
    try:
        return kind.validate_python(argument)
    except ValidationError as wrong:
        found = wrong.errors()[0]
        said = found["ctx"]["error"] if found["type"] == "value_error" else f"{shown(argument)} is no number"
        raise ValueError(said) from wrong


def _count(argument: Any) -> int:
    return int(_read(_COUNT, argument))


def _size(argument: Any) -> int:
    return int(_read(_SIZE, argument))


def _time(argument: Any) -> timedelta:
    found: timedelta = _read(_TIME, argument)
    return found


def _parts(argument: Any) -> tuple[Trigger, ...]:
    if not isinstance(argument, list) or not argument:
        raise ValueError("needs a list of triggers")
    return tuple(parse_trigger(part) for part in argument)


def _commits(argument: Any) -> Trigger:
    return NumCommits(at_least=_count(_COMMITS if argument is None else argument))


def _after_request(argument: Any) -> Trigger:
    return NumCommitsAfterLastRequest(at_least=_count(_COMMITS if argument is None else argument))


def _elapsed(argument: Any) -> Trigger:
    return TimeElapsed(at_least=_time(_ELAPSED if argument is None else argument))


def _commits_and_time(argument: Any) -> tuple[Trigger, Trigger]:
    argument = {} if argument is None else argument
    if not isinstance(argument, Mapping) or not set(argument) <= {"num_commits", "time_elapsed"}:
        raise ValueError("needs num_commits and time_elapsed, as in {num_commits: 5, time_elapsed: 1h}")
    return _commits(argument.get("num_commits")), _elapsed(argument.get("time_elapsed"))


_TRIGGERS = (
    NumCommits,
    NumCommitsAfterLastRequest,
    NumRewrites,
    TimeElapsed,
    LogFiles,
    LogBytes,
    SmallFiles,
    AllOf,
    AnyOf,
)

_STRATEGIES: Mapping[str, Callable[[Any], Trigger]] = {
    "NUM_COMMITS": _commits,
    "NUM_COMMITS_AFTER_LAST_REQUEST": _after_request,
    "TIME_ELAPSED": _elapsed,
    "NUM_AND_TIME": lambda argument: AllOf(triggers=_commits_and_time(argument)),
    "NUM_OR_TIME": lambda argument: AnyOf(triggers=_commits_and_time(argument)),
}

_KINDS: Mapping[str, Callable[[Any], Trigger]] = {
    "num_commits": lambda argument: NumCommits(at_least=_count(argument)),
    "num_commits_after_last_request": lambda argument: NumCommitsAfterLastRequest(at_least=_count(argument)),
    "time_elapsed": lambda argument: TimeElapsed(at_least=_time(argument)),
    "log_files": lambda argument: LogFiles(at_least=_count(argument)),
    "log_bytes": lambda argument: LogBytes(at_least=_size(argument)),
    "small_files": lambda argument: SmallFiles(at_least=_count(argument)),
    "all_of": lambda argument: AllOf(triggers=_parts(argument)),
    "any_of": lambda argument: AnyOf(triggers=_parts(argument)),
    **_STRATEGIES,
}

TriggerSetting = Annotated[Any, BeforeValidator(parse_trigger)]
