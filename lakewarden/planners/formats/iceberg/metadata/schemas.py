"""The schemas in a table's metadata file, as far as services need them: the types of columns."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any


def types_in(raw: Mapping[str, Any]) -> frozenset[str]:
    """Return the types of the current schema's columns and of what they are made of, without parameters. In version 1
    the schema may be the only one.
    """
    schemas = {one.get("schema-id"): one for one in raw.get("schemas") or ()}
    return frozenset(_types(schemas.get(raw.get("current-schema-id"), raw.get("schema") or {})))


def columns_in(raw: Mapping[str, Any]) -> Mapping[Any, str]:
    """Return the types of the columns that a partition can come from, by id. A column that was dropped counts for as
    long as a schema has it.
    """
    schemas = (raw.get("schema") or {}, *(raw.get("schemas") or ()))
    return {number: kind for schema in schemas for number, kind in _columns(schema)}


def has_identifier(raw: Mapping[str, Any]) -> bool:
    """Whether a schema names the columns that identify a row (`identifier-field-ids`)."""
    return any(one.get("identifier-field-ids") for one in (raw.get("schema") or {}, *(raw.get("schemas") or ())))


def _types(of: Any) -> Iterator[str]:
    """Yield the names of a type and of its parts."""
    if isinstance(of, str):
        yield of.partition("(")[0].partition("[")[0].strip()
        return
    yield of.get("type", "struct")
    nested = (field["type"] for field in of.get("fields") or ())
    for inner in (*nested, *(of[part] for part in ("element", "key", "value") if part in of)):
        yield from _types(inner)


def _columns(struct: Mapping[str, Any]) -> Iterator[tuple[Any, str]]:
    for one in struct.get("fields") or ():
        if isinstance(one["type"], str):
            yield one["id"], sys.intern(one["type"])
        elif one["type"].get("type") == "struct":
            yield from _columns(one["type"])
