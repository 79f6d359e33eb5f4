"""Schemas: the keys, the columns and the options of a Paimon table.

Source: Paimon's table spec, "Schema" (docs/docs/concepts/spec/schema.md): versions 1 to 3, numbered from 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lakewarden.planners.decoding.json_stream import count, moment
from lakewarden.planners.formats.paimon.metadata.files import MALFORMED, corrupt, json_object, require_known
from lakewarden.planners.formats.paimon.options.core_options import CoreOptions, core_options

NEWEST = 3
"""The newest version of a schema file that is known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Schema:
    """One schema. `partition_types` are the SQL types of its partition keys, without `NOT NULL`."""

    id: int
    version: int
    primary_keys: tuple[str, ...]
    partition_keys: tuple[str, ...]
    partition_types: tuple[str, ...]
    options: CoreOptions
    at: datetime | None

    @property
    def has_key(self) -> bool:
        """Whether the table has a primary key: else it is an append table."""
        return bool(self.primary_keys)


def parse_schema(content: bytes, *, file: str, named: int) -> Schema:
    """Return what a schema file says. `named` is the id in its name. Raises CorruptMetadataError and
    NewerVersionError.
    """
    raw = json_object(content, file=file, what="schema")
    try:
        version = count(raw.get("version", 1), "version")
        require_known(file, "schema", version, NEWEST)
        schema = _schema(raw, version)
        if schema.id != named:
            raise ValueError(f"it says that it is schema {schema.id}")
    except MALFORMED as wrong:
        raise corrupt(file, "schema", wrong) from wrong
    return schema


def _schema(raw: Mapping[str, Any], version: int) -> Schema:
    primary, partition = _names(raw["primaryKeys"]), _names(raw["partitionKeys"])
    types = {str(field["name"]): _type(field["type"]) for field in raw["fields"]}
    options = {str(key): str(value) for key, value in (raw.get("options") or {}).items()}
    at = raw.get("timeMillis")
    return Schema(
        id=count(raw["id"], "id"),
        version=version,
        primary_keys=primary,
        partition_keys=partition,
        partition_types=tuple(types[key] for key in partition),
        options=core_options(
            options,
            version=version,
            has_key=bool(primary),
            key_has_partition=set(partition) <= set(primary),
            values={name: of for name, of in types.items() if name not in primary},
        ),
        at=None if at is None else moment(at, "timeMillis"),
    )


def _names(raw: Any) -> tuple[str, ...]:
    if not isinstance(raw, list) or not all(isinstance(name, str) for name in raw):
        raise TypeError("keys are not a list of names")
    return tuple(raw)


def _type(raw: Any) -> str:
    """Return a column's type; those that are made of others are written as objects, and are no partition's."""
    return raw.upper().removesuffix(" NOT NULL").partition("(")[0].strip() if isinstance(raw, str) else "NESTED"
