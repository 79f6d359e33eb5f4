"""The schemas in a table's metadata file, as far as services need them: the types of columns."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from lakewarden.planners.decoding.json_stream import long


def types_in(raw: Mapping[str, Any]) -> frozenset[str]:
    """Return the types of the current schema's columns and of what they are made of, without parameters. In version 1
    the schema may be the only one.
    """
    schemas = {schema.get("schema-id"): schema for schema in raw.get("schemas") or ()}
    return frozenset(_types(schemas.get(raw.get("current-schema-id"), raw.get("schema") or {})))


def columns_in(raw: Mapping[str, Any]) -> Mapping[Any, str]:
    """Return the types of the columns that a partition can come from, by id. A column that was dropped counts for as
    long as a schema has it.
    """
    schemas = (raw.get("schema") or {}, *(raw.get("schemas") or ()))
    return {number: kind for schema in schemas for number, kind in _columns(schema)}


def has_identifier(raw: Mapping[str, Any]) -> bool:
    """Whether a schema names the columns that identify a row (`identifier-field-ids`)."""
    return any(schema.get("identifier-field-ids") for schema in (raw.get("schema") or {}, *(raw.get("schemas") or ())))


class DroppedColumn(NamedTuple):
    """A column that the current schema does not have. `schema` is an older one that has it. `is_whole`: that schema has
    every column of today, too, as it is today. `within`: all schemas that have the column.
    """

    name: str
    schema: int
    is_whole: bool
    within: frozenset[int] = frozenset()


def dropped_in(raw: Mapping[str, Any]) -> Mapping[int, DroppedColumn]:
    """Return the columns that were dropped, by field id. A schema that is whole is preferred, else the newest."""
    schemas = {long(schema["schema-id"], "schema-id"): schema for schema in raw.get("schemas") or ()}
    now = schemas.get(raw.get("current-schema-id", -1))
    if now is None or len(schemas) == 1:
        return {}
    today, dropped = dict(_fields(now)), dict[int, DroppedColumn]()
    within: dict[int, set[int]] = {}
    for number, schema in sorted(schemas.items()):
        is_whole = all(field in schema["fields"] for field in now["fields"])
        for field_id, name in _fields(schema):
            within.setdefault(field_id, set()).add(number)
            if field_id not in today and (is_whole or not (field_id in dropped and dropped[field_id].is_whole)):
                dropped[field_id] = DroppedColumn(name, number, is_whole)
    return {field_id: column._replace(within=frozenset(within[field_id])) for field_id, column in dropped.items()}


def _fields(struct: Mapping[str, Any], place: str = "") -> Iterator[tuple[int, str]]:
    """Yield the fields of a schema that a delete may name, those in structs included, with their names."""
    for field in struct.get("fields") or ():
        yield long(field["id"], "id"), f"{place}{field['name']}"
        if not isinstance(field["type"], str):
            yield from _fields(field["type"], f"{place}{field['name']}.")


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
    for field in struct.get("fields") or ():
        if isinstance(field["type"], str):
            yield field["id"], sys.intern(field["type"])
        elif field["type"].get("type") == "struct":
            yield from _columns(field["type"])
