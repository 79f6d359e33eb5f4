"""What a hook says: which table had better be looked at. A hint, whose sender is trusted with nothing more."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, assert_never

from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.storage.locations import is_in_catalog, named_in_catalog


class MalformedHookError(Exception):
    """The body is not what a stock sender sends."""


@dataclass(frozen=True, kw_only=True, slots=True)
class At:
    """The table at a canonical location."""

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


def json_object(body: bytes) -> Mapping[str, Any]:
    """Return a body that is a JSON object. Raises MalformedHookError."""
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as wrong:
        raise MalformedHookError("the body is not JSON") from wrong
    if not isinstance(message, dict):
        raise MalformedHookError("the body is no JSON object")
    return message
