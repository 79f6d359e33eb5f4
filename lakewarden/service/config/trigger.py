"""How triggers are written in the configuration: `{num_commits: 5}`, `{any_of: [{...}, {...}]}`.

The names of triggers in the formats are accepted too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator

from lakewarden.planners.registry import FORMATS
from lakewarden.planners.settings import shown
from lakewarden.planners.triggers import TRIGGERS, Composite, Trigger


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
        raise ValueError(f"{shown(word)} is no trigger: it is one of {', '.join(_WORDS)}")
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
