"""What a hook says: which table had better be looked at. A hint, whose sender is trusted with nothing more."""

from __future__ import annotations

import json
import re
from codecs import getincrementaldecoder
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, assert_never

from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.storage.locations import is_in_catalog, named_in_catalog

_NO_SPACE = re.compile(r"[^ \t\r\n]")


class MalformedHookError(Exception):
    """The body is not what a stock sender sends."""


@dataclass(frozen=True, kw_only=True, slots=True)
class At:
    """The table at a location, as `spelled_location` spells it: links in a path may not be resolved."""

    location: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Named:
    """The table that a catalog knows as `identifier`, `<namespace>.<table>`. Without a `catalog`, the name under which
    the configuration knows it, that is every table of this name: a look too many costs a request.
    """

    identifier: str
    catalog: str | None = None


Hint = At | Named


class Registered:
    """The registered tables, by what hints say of them."""

    def __init__(self, tables: Iterable[Table]) -> None:
        self._at: dict[str, TableId] = {}
        self._named: defaultdict[str, dict[str, TableId]] = defaultdict(dict)
        for table in tables:
            self._at[table.location] = table.id
            if is_in_catalog(table.location):
                catalog, identifier = named_in_catalog(table.location)
                self._named[identifier][catalog] = table.id

    def meant_by(self, hint: Hint) -> tuple[TableId, ...]:
        """Return the tables that a hint is about; none where nobody has registered one."""
        match hint:
            case At(location=location):
                return (self._at[location],) if location in self._at else ()
            case Named(identifier=identifier, catalog=catalog):
                known = self._named.get(identifier, {})
                return tuple(table for name, table in known.items() if catalog in (None, name))
            case _:
                assert_never(hint)


def json_object(body: bytes, *, whole: bool = True) -> Mapping[str, Any]:
    """Return a body that is a JSON object. Of one that is not there as a whole, the members that come first are.

    Raises MalformedHookError.
    """
    if not whole:
        return _first_members(body)
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as wrong:
        raise MalformedHookError("the body is not JSON") from wrong
    if not isinstance(message, dict):
        raise MalformedHookError("the body is no JSON object")
    return message


def _first_members(body: bytes) -> Mapping[str, Any]:
    """Return the members of an object up to the one at which its text breaks off."""
    text = getincrementaldecoder("utf-8")(errors="replace").decode(body)
    decoder, members = json.JSONDecoder(), dict[str, Any]()
    at = _after(text, 0, "{")
    try:
        while at is not None:
            name, at = decoder.raw_decode(text, _past_space(text, at))
            at = _after(text, at, ":") if isinstance(name, str) else None
            if at is None:
                break
            value, at = decoder.raw_decode(text, _past_space(text, at))
            if _past_space(text, at) < len(text):  # else it may go on, as a number does
                members[name] = value
            at = _after(text, at, ",")
    except (ValueError, RecursionError):
        pass
    if not members:
        raise MalformedHookError("the body is no JSON object, or its first member is too large")
    return members


def _past_space(text: str, at: int) -> int:
    found = _NO_SPACE.search(text, at)
    return len(text) if found is None else found.start()


def _after(text: str, at: int, sign: str) -> int | None:
    at = _past_space(text, at)
    return at + 1 if text.startswith(sign, at) else None
