"""A program: the kind of a table and what happens to it. It is made from a seed, printed in one line, and shrunk."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, TypeVar

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Act:
    """One act of a writer, by a name of the format, or one of ours (`running.OURS`), with its arguments as in JSON."""

    name: str
    given: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Program:
    """The `kind` is in the format's own words, as in JSON."""

    format: str
    kind: Mapping[str, Any]
    acts: tuple[Act, ...]
    seed: int | None = None

    def to_json(self) -> str:
        """Return it in one line."""
        acts = [[act.name, act.given] if act.given else [act.name] for act in self.acts]
        return json.dumps({"format": self.format, "seed": self.seed, "kind": self.kind, "acts": acts})

    @classmethod
    def from_json(cls, text: str) -> Program:
        """Return the program of a line that `to_json` has returned."""
        said = json.loads(text)
        return cls(
            format=said["format"], seed=said["seed"], kind=said["kind"], acts=tuple(Act(*act) for act in said["acts"])
        )

    def of(self, acts: Sequence[Act]) -> Program:
        """Return a program with other acts."""
        return replace(self, acts=tuple(acts))


@dataclass(frozen=True, kw_only=True, slots=True)
class Mood:
    """How often each name is drawn. Most names are left out of a mood, so that long rows of few acts happen often."""

    weights: Mapping[str, int]

    @classmethod
    def drawn(cls, chance: Random, usual: Mapping[str, int]) -> Mood:
        """Return the usual weights, each multiplied by 0, 1 or 4. An entry above 9 stays in every mood."""
        drawn = {name: weight * chance.choice((0, 0, 1, 1, 4)) for name, weight in usual.items()}
        return cls(weights={name: weight if usual[name] <= 9 else usual[name] for name, weight in drawn.items()})

    def draws(self, chance: Random) -> Iterator[str]:
        """Yield names without end."""
        names = [name for name, weight in self.weights.items() if weight]
        while True:
            yield from chance.choices(names, [self.weights[name] for name in names])


def shrunk(items: Sequence[_Item], fails: Callable[[Sequence[_Item]], bool], *, tries: int = 60) -> Sequence[_Item]:
    """Leave out items as long as what is left `fails`: halves first, then smaller parts, at last single ones (delta
    debugging). It ends after so many tries.
    """
    size = max(1, len(items) // 2)
    while tries > 0:
        left_out = False
        start = len(items)
        while start > 0 and tries > 0:  # from the end: later acts need the earlier ones
            start = max(0, start - size)
            rest = [*items[:start], *items[start + size :]]
            tries -= 1
            if rest and fails(rest):
                items, left_out = rest, True
        if size == 1 and not left_out:
            break
        size = size if left_out and size == 1 else max(1, size // 2)
    return items
