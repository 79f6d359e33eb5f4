"""Whether a value of JSON has the fields and the types of a body. A daemon of another version may answer."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict


def misfit(value: Any, kind: Any) -> str | None:
    """Return where a value is not of a type, and None if it fits.

    A field that the type does not know is no misfit: a newer daemon may send it. For the same reason the values of an
    enum are not compared.
    """
    return next(_misfits(value, kind, "the answer"), None)


def _misfits(value: Any, kind: Any, at: str) -> Iterator[str]:
    origin = get_origin(kind)
    if kind is Any:
        return
    if origin in (Union, types.UnionType):
        if all(next(_misfits(value, one, at), None) for one in get_args(kind)):
            yield f"{at} is {_named(value)}"
    elif is_typeddict(kind):
        yield from _misfits_of_body(value, kind, at)
    elif origin is list:
        yield from _misfits_of_list(value, get_args(kind)[0], at)
    elif origin is dict:
        yield from _misfits_of_map(value, get_args(kind)[1], at)
    elif not _is_plain(value, str if origin is Literal else kind):
        yield f"{at} is {_named(value)}"


def _misfits_of_body(value: Any, kind: Any, at: str) -> Iterator[str]:
    if not isinstance(value, Mapping):
        yield f"{at} is {_named(value)}"
        return
    for name, (field, required) in _fields(kind).items():
        if name in value:
            yield from _misfits(value[name], field, f"{at}.{name}")
        elif required:
            yield f"{at}.{name} is missing"


def _misfits_of_list(value: Any, kind: Any, at: str) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{at} is {_named(value)}"
        return
    for number, one in enumerate(value):
        yield from _misfits(one, kind, f"{at}[{number}]")


def _misfits_of_map(value: Any, kind: Any, at: str) -> Iterator[str]:
    if not isinstance(value, Mapping):
        yield f"{at} is {_named(value)}"
        return
    for one in value.values():
        yield from _misfits(one, kind, f"{at}[...]")


@cache
def _fields(kind: Any) -> Mapping[str, tuple[Any, bool]]:
    """Return the type of each field of a body, and whether the field is required."""
    found = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        optional = get_origin(hint) is NotRequired
        found[name] = (get_args(hint)[0] if optional else hint, not optional)
    return found


def _is_plain(value: Any, kind: Any) -> bool:
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if kind is type(None):
        return value is None
    return isinstance(value, kind)


def _named(value: Any) -> str:
    return {dict: "an object", list: "a list", str: "a text", bool: "a boolean", type(None): "null"}.get(
        type(value), "a number"
    )
