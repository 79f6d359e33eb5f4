r"""Avro containers from outside. They are opened here, inflated within bounds, and only then decoded by fastavro.

Source: Avro specification, "Object Container Files": a header of `Obj\x01`, a map with the schema and the codec, and
sixteen bytes of sync; then blocks of a count, a size, the content, and the sync again.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from lakewarden.planners.decoding.avro_schema import AvroSchema, parsed_schema
from lakewarden.planners.decoding.avro_weight import BlockPosition, weigh_records
from lakewarden.planners.decoding.damage import DamagedError, OversizedError
from lakewarden.planners.decoding.inflating import bound_of, inflated

MAGIC = b"Obj\x01"
LARGEST = 256 * 2**20
"""The most bytes of a file after it is inflated."""

_SYNC = 16
_OURS = b"\0" * _SYNC
_ENDS = "its Avro content is half-written or damaged"
_MOST_ENTRIES = 1024
_MOST_RECORDS = 4_000_000
_AT_ONCE = 2**20
"""Blocks are collected up to so many bytes before they are decoded. A larger block is weighed first."""

_ALWAYS, _FOR_A_BYTE = 64 * 2**20, 6
"""The memory that a record may take: a fixed amount, and a factor for each of its bytes. Sound records take two to four
times their bytes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Container:
    """An Avro container with a sound header: its schema, the other entries of the header (`about`), and its blocks,
    which are not checked yet.
    """

    schema: AvroSchema
    about: Mapping[str, bytes]
    codec: str
    sync: bytes
    content: bytes
    begin: int

    def records(self, *, most: int = LARGEST) -> Iterator[dict[str, Any]]:
        """Yield the records. They consist of numbers, texts, bytes, lists and dictionaries. Logical types are ignored.

        Raises DamagedError if the content is not whole, or is larger than `most` bytes after it is inflated.
        """
        head = _head(self.schema.plain)
        gathered = [head]
        size = 0
        for records, block in self._blocks(most):
            if len(block) > _AT_ONCE:
                budget = _ALWAYS + _FOR_A_BYTE * len(block)
                weigh_records(self.schema.type.weigh, block, records, budget=budget)
            gathered += (_long(records), _long(len(block)), block, _OURS)
            size += len(block)
            if size > _AT_ONCE:
                yield from _decoded(b"".join(gathered))
                gathered, size = [head], 0
        if size:
            yield from _decoded(b"".join(gathered))

    def record(self) -> dict[str, Any]:
        """Return the only record. Raises DamagedError, also if there are more records, or none."""
        if sum(records for records, _, _ in self._stored()) != 1:
            raise DamagedError(_ENDS)
        return next(self.records())

    def _blocks(self, most: int) -> Iterator[tuple[int, bytes]]:
        """Yield how many records each block has, and its inflated content."""
        left = bound_of(len(self.content), most=most)
        total = 0
        for records, begin, end in self._stored():
            block = inflated(self.codec, self.content[begin:end], most=left)
            left -= len(block)
            total += records
            if records > len(block) // self.schema.type.least:
                raise DamagedError(f"its Avro content counts {records} records in {len(block)} bytes")
            if total > _MOST_RECORDS:
                raise OversizedError(f"its Avro content has more than {_MOST_RECORDS} records")
            if records:
                yield records, block

    def _stored(self) -> Iterator[tuple[int, int, int]]:
        """Yield how many records each block has, and the begin and end of its stored bytes."""
        walk = BlockPosition(self.content, self.begin)
        while walk.position < len(self.content):
            records, size = walk.long(), walk.long()
            begin, end = walk.position, walk.position + size
            if records < 0 or size < 0 or self.content[end : end + _SYNC] != self.sync:
                raise DamagedError(_ENDS)
            yield records, begin, end
            walk.position = end + _SYNC


def opened(content: bytes) -> Container:
    """Return a container by its header. Raises DamagedError if it is no container, if no sound file has such a schema
    (`avro_schema`), or if the codec is unknown.
    """
    if not content.startswith(MAGIC):
        raise DamagedError(_ENDS)
    walk = BlockPosition(content, len(MAGIC))
    about = _header(walk)
    sync = content[walk.position : walk.position + _SYNC]
    if len(sync) != _SYNC or "avro.schema" not in about:
        raise DamagedError(_ENDS)
    return Container(
        schema=parsed_schema(about["avro.schema"]),
        about=about,
        codec=about.get("avro.codec", b"null").decode("ascii", "replace"),
        sync=sync,
        content=content,
        begin=walk.position + _SYNC,
    )


def _header(walk: BlockPosition) -> dict[str, bytes]:
    """Return the entries of the header, and pass them."""
    about: dict[str, bytes] = {}
    while entries := walk.long():
        if entries < 0:
            entries = -entries
            walk.long()
        if entries + len(about) > _MOST_ENTRIES:
            raise DamagedError(f"its Avro header has more than {_MOST_ENTRIES} entries")
        for _ in range(entries):
            key = walk.text().decode("utf-8", "replace")
            about[key] = walk.text()
    return about


def _long(number: int) -> bytes:
    """Return a number that is not negative, in Avro's encoding."""
    left = number << 1
    written = bytearray()
    while left > 0x7F:
        written.append(left & 0x7F | 0x80)
        left >>= 7
    written.append(left)
    return bytes(written)


def _head(schema: bytes) -> bytes:
    """Return the header of a new container without a codec."""
    return b"".join((MAGIC, _long(1), _long(11), b"avro.schema", _long(len(schema)), schema, _long(0), _OURS))


def _decoded(container: bytes) -> Iterator[dict[str, Any]]:
    import fastavro  # noqa: PLC0415 - the command line without the server does not have it

    try:
        yield from cast("Iterator[dict[str, Any]]", fastavro.reader(io.BytesIO(container)))
    except Exception as wrong:  # a damaged block can make fastavro raise any error
        raise DamagedError(_ENDS) from wrong
