"""How triggers are written in the configuration: `{num_commits: 5}`, `{any_of: [{...}, {...}]}`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator

from lakewarden.planners.settings import parse_duration
from lakewarden.planners.triggers import (
    AllOf,
    AnyOf,
    NumCommits,
    NumCommitsAfterLastRequest,
    TimeElapsed,
    Trigger,
)


def parse_trigger(value: Any) -> Trigger:
    """Return the trigger that `value` writes down. Raises ValueError, saying what may stand there."""
    if isinstance(value, NumCommits | NumCommitsAfterLastRequest | TimeElapsed | AllOf | AnyOf):
        return value
    if not isinstance(value, Mapping) or len(value) != 1:
        raise ValueError(f"a trigger is one of {', '.join(_KINDS)}, as in {{num_commits: 5}}")
    ((kind, argument),) = value.items()
    if kind not in _KINDS:
        raise ValueError(f"{kind!r} is no trigger: it is one of {', '.join(_KINDS)}")
    try:
        return _KINDS[kind](argument)
    except ValueError as wrong:
        raise ValueError(f"{kind}: {wrong}") from wrong


def _count(argument: Any) -> int:
    if not isinstance(argument, int) or isinstance(argument, bool) or argument < 1:
        raise ValueError(f"{argument!r} is no number of commits: it is 1 or more")
    return argument


def _parts(argument: Any) -> tuple[Trigger, ...]:
    if not isinstance(argument, list) or not argument:
        raise ValueError("needs a list of triggers")
    return tuple(parse_trigger(part) for part in argument)


_KINDS: Mapping[str, Callable[[Any], Trigger]] = {
    "num_commits": lambda argument: NumCommits(at_least=_count(argument)),
    "num_commits_after_last_request": lambda argument: NumCommitsAfterLastRequest(at_least=_count(argument)),
    "time_elapsed": lambda argument: TimeElapsed(at_least=parse_duration(argument)),
    "all_of": lambda argument: AllOf(triggers=_parts(argument)),
    "any_of": lambda argument: AnyOf(triggers=_parts(argument)),
}

TriggerSetting = Annotated[Any, BeforeValidator(parse_trigger)]
