"""Avro files that cost a reader far more than they weigh, each made by hand: no library would write them."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

_SYNC = bytes(range(16))
_ZEROS = 2**20
_NAME_FOR_ITSELF = "r"


def of_itself(levels: int) -> bytes:
    """Return one record that holds one of its own kind, and so on. 5,000 levels weigh 5 kB."""
    schema = _record(_NAME_FOR_ITSELF, next=["null", _NAME_FOR_ITSELF])
    return container(schema, b"\x02" * levels + b"\x00")


def of_empty_records(count: int = 2**60) -> bytes:
    """Return a block that says it holds so many records of no bytes each, in some 100 bytes."""
    return container(_record("r"), b"", count=count)


def of_nulls(count: int = 2**60) -> bytes:
    """Return one record with an array of so many nulls, which need no bytes."""
    schema = _record("r", filePathsToBeDeletedPerPartition={"type": "array", "items": "null"})
    return container(schema, long(count) + long(0))


def of_negative_counts(count: int = 2**60) -> bytes:
    """Return one record with an array whose count is negative: a size follows, which a reader might believe."""
    schema = _record("r", partitionsToBeDeleted={"type": "array", "items": "null"})
    return container(schema, long(-count) + long(count) + long(0))


def of_zeros(size: int) -> bytes:
    """Return one record with so many zero bytes, deflated: a thousandth of it, made in a moment whatever its size."""
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -15)
    chunks = size // _ZEROS
    head = squeeze.compress(long(chunks * _ZEROS)) + squeeze.flush(zlib.Z_FULL_FLUSH)
    chunk = squeeze.compress(bytes(_ZEROS)) + squeeze.flush(zlib.Z_FULL_FLUSH)  # stands alone: it may be repeated
    return container(_record("r", zeros="bytes"), head + chunk * chunks + squeeze.flush(), codec="deflate")


def of_a_long_string(size: int = 2**60) -> bytes:
    """Return one record whose text says that it is so long, and is not there."""
    return container(_record("r", text="string"), long(size))


def of_doubled_names(doublings: int = 60) -> bytes:
    """Return one record of two records of two records and so on: 2 to the `doublings` fields, which need no bytes."""
    kind: Any = _record("r0")
    for number in range(1, doublings + 1):
        kind = _record(f"r{number}", a=kind, b=f"r{number - 1}")
    return container(kind, b"")


def of_a_deep_schema(levels: int) -> bytes:
    """Return one record with arrays of arrays of arrays; it names no kind twice."""
    kind = b'{"type":"array","items":' * levels + b'"null"' + b"}" * levels
    schema = b'{"type":"record","name":"r","fields":[{"name":"a","type":' + kind + b"}]}"
    return container(schema, long(0))


def of_a_schema_that_is_none() -> bytes:
    """Return a file whose schema is no JSON."""
    return container(b'{"type":', b"")


def of_an_unknown_codec() -> bytes:
    """Return a file that is compressed in a way that nobody knows."""
    return container(_record("r", a="int"), b"\0", codec="\x1b[31mnone")


def cut_off() -> bytes:
    """Return a file that ends within its header."""
    return container(_record("r"), b"")[:20]


def container(schema: Mapping[str, Any] | bytes, block: bytes, *, count: int = 1, codec: str = "null") -> bytes:
    """Return an object container file with one block."""
    written = schema if isinstance(schema, bytes) else json.dumps(schema).encode()
    about = {"avro.schema": written, "avro.codec": codec.encode()}
    entries = b"".join(_text(key.encode()) + _text(value) for key, value in about.items())
    header = b"Obj\x01" + long(len(about)) + entries + long(0) + _SYNC
    return header + long(count) + long(len(block)) + block + _SYNC


def long(value: int) -> bytes:
    """Return a number as Avro writes it: zigzag, seven bits a byte."""
    left = (value << 1) ^ (value >> 63)
    found = bytearray()
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    found.append(left)
    return bytes(found)


def _record(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": field, "type": kind} for field, kind in fields.items()]}


def _text(content: bytes) -> bytes:
    return long(len(content)) + content
