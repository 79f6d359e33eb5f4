"""A predicate over partitions as people write it: `day >= '2026-01-01' AND region IN ('eu', 'us')`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from operator import eq, ge, gt, le, lt, ne
from typing import Any
from urllib.parse import unquote_plus

from lakewarden.planners.settings import shown

_FIELD = r"(?P<field>`[^`]+`|[A-Za-z_]\w*)"
_LITERAL = r"'(?:[^']|'')*'|-?\d+(?:\.\d+)?|true|false"
_CONDITION = re.compile(
    rf"\s*{_FIELD}\s*(?:"
    rf"(?P<compared>!=|<>|<=|>=|=|<|>)\s*(?P<one>{_LITERAL})"
    rf"|\s(?P<isnt>NOT\s+)?IN\s*\(\s*(?P<some>(?:{_LITERAL})(?:\s*,\s*(?:{_LITERAL}))*)\s*\)"
    r"|\sIS\s+(?P<there>NOT\s+)?(?P<null>NULL)"
    r")(?P<end>\s+AND\s|\s*$)",
    re.IGNORECASE,
)
_EACH = re.compile(_LITERAL, re.IGNORECASE)
_NULL = "null"

_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": eq,
    "!=": ne,
    "<>": ne,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
}


@dataclass(frozen=True, slots=True)
class _Condition:
    """The condition on the value of one field. A null fits no condition. If the condition asks for a number, only
    numbers fit.
    """

    field: str
    holds: Callable[[str | None], bool]


@dataclass(frozen=True, slots=True)
class Where:
    """A conjunction of conditions on the fields of partitions."""

    conditions: tuple[_Condition, ...]

    @property
    def fields(self) -> frozenset[str]:
        """Return the partition fields that the predicate names."""
        return frozenset(condition.field for condition in self.conditions)

    def matches(self, partition: str) -> bool:
        """Whether a partition fits, by its name (`day=2026-01-01/region=eu`). A partition that lacks one of the fields
        does not fit.
        """
        values = {unquote_plus(name): text for name, _, text in (part.partition("=") for part in partition.split("/"))}
        return all(
            condition.field in values and condition.holds(_value(values[condition.field]))
            for condition in self.conditions
        )


def _value(text: str) -> str | None:
    return None if text == _NULL else unquote_plus(text)


@lru_cache(maxsize=1000)
def parse_where(text: str) -> Where:
    """Return the predicate for a text. Raises ValueError that names the wrong part."""
    conditions = []
    at, more = 0, True
    while more:
        match = _CONDITION.match(text, at)
        if match is None:
            raise ValueError(
                f"{shown(text[at:].strip())} is not a condition on a partition: write it as in `day >= "
                "'2026-01-01' AND "
                "region IN ('eu', 'us')`, with the names of partition fields, and IN for OR"
            )
        conditions.append(_Condition(match["field"].strip("`"), _holds(match)))
        at, more = match.end(), bool(match["end"].strip())
    return Where(tuple(conditions))


def _holds(match: re.Match[str]) -> Callable[[str | None], bool]:
    if match["null"]:
        wanted = bool(match["there"])
        return lambda value: (value is not None) is wanted
    if match["some"]:
        some = tuple(_compared("=", literal) for literal in _EACH.findall(match["some"]))
        none = bool(match["isnt"])
        return lambda value: value is not None and any(same(value) for same in some) is not none
    return _compared(match["compared"], match["one"])


def _compared(sign: str, literal: str) -> Callable[[str | None], bool]:
    """Return a comparison with a literal. Numbers are compared by value, all else as text."""
    compare = _COMPARISONS[sign]
    if literal.startswith("'"):
        text = literal[1:-1].replace("''", "'")
        return lambda value: value is not None and compare(value, text)
    if literal.lower() in ("true", "false"):
        return lambda value: value is not None and compare(value, literal.lower())
    number = Decimal(literal)

    def holds(value: str | None) -> bool:
        decimal = None if value is None else _number(value)
        return decimal is not None and compare(decimal, number)

    return holds


def _number(value: str) -> Decimal | None:
    try:
        number = Decimal(value)
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def unknown_fields(where: Where, known: Sequence[str]) -> tuple[str, ...]:
    """Return the fields of the predicate that are not in `known`."""
    return tuple(sorted(where.fields - frozenset(known)))
