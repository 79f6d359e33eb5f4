"""Reads an Avro file of Paimon: its blocks are compressed by Zstandard, which fastavro alone cannot undo."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa

_MAGIC = b"Obj\x01"
_SYNC = 16
_HEADER = {"type": "map", "values": "bytes"}
_NONE = b"null"
_CODECS = {_NONE: None, b"zstandard": "zstd"}


def records(file: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the records of a file. Raises FileNotFoundError, and ValueError for another kind of file."""
    content = io.BytesIO(file.read_bytes())
    if content.read(len(_MAGIC)) != _MAGIC:
        raise ValueError(f"{file} is not an Avro file")
    header = _one(content, _HEADER)
    schema = fastavro.parse_schema(json.loads(header["avro.schema"]))
    codec = header.get("avro.codec", _NONE)
    if codec not in _CODECS:
        raise ValueError(f"{file} has the codec {codec!r}")
    content.read(_SYNC)
    size = len(content.getbuffer())
    while content.tell() < size:
        count, length = _one(content, "long"), _one(content, "long")
        block = content.read(length)
        content.read(_SYNC)
        unpacked = _CODECS[codec]
        rows = io.BytesIO(block if unpacked is None else pa.CompressedInputStream(io.BytesIO(block), unpacked).read())
        for _ in range(count):
            yield _one(rows, schema)


def _one(content: io.BytesIO, schema: Any) -> Any:
    return fastavro.schemaless_reader(content, schema, None)
