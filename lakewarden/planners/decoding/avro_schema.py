"""A writer's schema in an Avro container, checked for what no sound file needs.

A decoder follows any schema. A schema that contains itself lets a few bytes nest without end. A schema with items that
take no bytes lets nine bytes stand for 2^60 items. Both are refused here. So each decoded value takes at least a byte
of the content, and values nest only as deep as the schema does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from lakewarden.planners.decoding import avro_weight as weight
from lakewarden.planners.decoding.avro_weight import Weigh
from lakewarden.planners.decoding.damage import DamagedError
from lakewarden.planners.decoding.json_stream import from_json

_LARGEST = 2**20
_DEEPEST = 64
_MOST_EMPTY = 4
"""The most values of a record that take no bytes. Iceberg's tables without partitions have one, the partition."""

_MOST_FIXED = 2**20


@dataclass(frozen=True, kw_only=True, slots=True)
class Type:
    """A type of a schema, with the types that it names inserted.

    `plain` is the type without what a decoder does not need, for example logical types. A value takes `least` bytes or
    more. `empty` counts the values in it that take none. `weigh` walks over one value without creating it.
    """

    plain: Any
    least: int
    empty: int
    depth: int
    weigh: Weigh


@dataclass(frozen=True, kw_only=True, slots=True)
class AvroSchema:
    """A schema that is safe to decode: the schema as it was `written`, the type of the container's records, and that
    type in the form for a decoder.
    """

    written: Any
    type: Type
    plain: bytes


@lru_cache(maxsize=64)
def parsed_schema(text: bytes) -> AvroSchema:
    """Return the schema of a container. Raises DamagedError if it is no schema, contains itself, is nested too deeply,
    is too large, or has items that take no bytes.
    """
    if len(text) > _LARGEST:
        raise DamagedError(f"its Avro schema has more than {_LARGEST} bytes")
    written = from_json(text)
    try:
        kind = _Schema().type_of(written, "", 0)
    except (KeyError, TypeError, AttributeError, ValueError) as wrong:
        raise DamagedError("its Avro schema is none") from wrong
    if not kind.least:
        raise DamagedError("its Avro schema has records that take no bytes")
    return AvroSchema(written=written, type=kind, plain=json.dumps(kind.plain).encode())


_PRIMITIVES: Mapping[str, tuple[int, Weigh]] = {
    "null": (0, weight.nothing),
    "boolean": (1, weight.boolean),
    "int": (1, weight.integer),
    "long": (1, weight.integer),
    "float": (4, weight.fixed(4)),
    "double": (8, weight.fixed(8)),
    "bytes": (1, weight.text),
    "string": (1, weight.text),
}


@dataclass(kw_only=True, slots=True)
class _Schema:
    """One pass over a schema. A named type can be used after its end. `begun` are the types that have not ended."""

    named: dict[str, Type] = field(default_factory=dict)
    begun: set[str] = field(default_factory=set)

    def type_of(self, raw: Any, namespace: str, depth: int) -> Type:
        if depth > _DEEPEST:
            raise DamagedError(f"its Avro schema is nested more than {_DEEPEST} levels deep")
        match raw:
            case str():
                return self._primitive_or_named(raw, namespace)
            case list():
                return self._union(raw, namespace, depth)
            case {"type": "record"}:
                return self._record(raw, namespace, depth)
            case {"type": "array", "items": items}:
                return self._items({"type": "array"}, "items", items, namespace, depth)
            case {"type": "map", "values": values}:
                return self._items({"type": "map"}, "values", values, namespace, depth)
            case {"type": "enum"}:
                return self._enum(raw, namespace)
            case {"type": "fixed"}:
                return self._fixed(raw, namespace)
            case {"type": inner}:
                return self.type_of(inner, namespace, depth + 1)
        raise TypeError("it is not a type")

    def _primitive_or_named(self, name: str, namespace: str) -> Type:
        if name in _PRIMITIVES:
            least, weigh = _PRIMITIVES[name]
            return Type(plain=name, least=least, empty=int(not least), depth=1, weigh=weigh)
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        if full in self.begun:
            raise DamagedError(f"its Avro schema is recursive: {full[:80]} holds itself")
        kind = self.named[full]
        return Type(plain=full, least=kind.least, empty=kind.empty, depth=kind.depth, weigh=kind.weigh)

    def _union(self, raw: Sequence[Any], namespace: str, depth: int) -> Type:
        branches = [self.type_of(branch, namespace, depth + 1) for branch in raw]
        return _bounded(
            plain=[branch.plain for branch in branches],
            least=1 + min(branch.least for branch in branches),
            empty=sum(branch.empty for branch in branches if branch.plain != "null"),
            parts=branches,
            weigh=weight.union([branch.weigh for branch in branches]),
        )

    def _items(self, plain: dict[str, Any], part: str, raw: Any, namespace: str, depth: int) -> Type:
        items = self.type_of(raw, namespace, depth + 1)
        of_map = part == "values"
        if not items.least and not of_map:
            raise DamagedError("its Avro schema has items that take no bytes")
        weigh = weight.items(items.weigh, least=items.least + of_map, keyed=of_map)
        return _bounded(plain={**plain, part: items.plain}, least=1, empty=items.empty, parts=[items], weigh=weigh)

    def _record(self, raw: Mapping[str, Any], namespace: str, depth: int) -> Type:
        full, inside = _names(raw, namespace)
        if full in self.named or full in self.begun:
            raise DamagedError(f"its Avro schema defines {full[:80]} twice")
        self.begun.add(full)
        fields = [
            (_text(avro_field["name"]), self.type_of(avro_field["type"], inside, depth + 1))
            for avro_field in raw["fields"]
        ]
        self.begun.remove(full)
        types = [kind for _, kind in fields]
        least = sum(kind.least for kind in types)
        self.named[full] = record_type = _bounded(
            plain={"type": "record", "name": full, "fields": [{"name": n, "type": kind.plain} for n, kind in fields]},
            least=least,
            empty=sum(kind.empty for kind in types) + (not least),
            parts=types,
            weigh=weight.record([name for name, _ in fields], [kind.weigh for kind in types]),
        )
        return record_type

    def _enum(self, raw: Mapping[str, Any], namespace: str) -> Type:
        full, _ = _names(raw, namespace)
        plain = {"type": "enum", "name": full, "symbols": [_text(symbol) for symbol in raw["symbols"]]}
        self.named[full] = enum_type = Type(plain=plain, least=1, empty=0, depth=1, weigh=weight.integer)
        return enum_type

    def _fixed(self, raw: Mapping[str, Any], namespace: str) -> Type:
        full, _ = _names(raw, namespace)
        size = raw["size"]
        if not isinstance(size, int) or not 0 <= size <= _MOST_FIXED:
            raise DamagedError(f"its Avro schema has a fixed type of more than {_MOST_FIXED} bytes, or less than none")
        plain = {"type": "fixed", "name": full, "size": size}
        self.named[full] = fixed_type = Type(
            plain=plain, least=size, empty=int(not size), depth=1, weigh=weight.fixed(size)
        )
        return fixed_type


def _bounded(*, plain: Any, least: int, empty: int, parts: Sequence[Type], weigh: Weigh) -> Type:
    depth = 1 + max((part.depth for part in parts), default=0)
    if depth > _DEEPEST:
        raise DamagedError(f"its Avro schema is nested more than {_DEEPEST} levels deep")
    if empty > _MOST_EMPTY:
        raise DamagedError(f"its Avro schema has more than {_MOST_EMPTY} values that take no bytes")
    return Type(plain=plain, least=least, empty=empty, depth=depth, weigh=weigh)


def _names(raw: Mapping[str, Any], namespace: str) -> tuple[str, str]:
    """Return the full name of a definition, and the namespace inside it."""
    name = _text(raw["name"])
    if "." in name:
        return name, name.rpartition(".")[0]
    inside = _text(raw.get("namespace", namespace))
    return (f"{inside}.{name}" if inside else name), inside


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("it is not a name")
    return value
