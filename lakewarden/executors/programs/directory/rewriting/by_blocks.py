"""Avro files are joined block by block. No block is read as values, so none can change. Each is inflated once, because
a damaged one would hide the blocks of other files.

Source: the Avro specification, "Object Container Files". Avro's own `DataFileWriter.appendAllFrom` does the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO

from lakewarden.executors.programs.directory.rewriting.by_lines import NotRewrittenError
from lakewarden.planners.decoding.damage import DamagedError
from lakewarden.planners.decoding.inflating import bound_of, inflated

MAGIC = b"Obj\x01"

_SPACE = 2**128
_SYNC = 16
_LONGEST_BLOCK = 512 * 2**20
_MOST_METADATA = 1000
_LONGEST_NUMBER = 10
_SCHEMA = "avro.schema"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Header:
    """The beginning of a file: its bytes, what it says of the rows, and the mark between blocks."""

    content: bytes
    metadata: dict[str, Any]
    sync: bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class _Block:
    """So many rows, as they are compressed in the file."""

    rows: int
    content: bytes


def joined_blocks(files: Sequence[Path], target: Path, *, target_size: int) -> list[Path]:
    """Write the blocks of files into new ones of about `target_size` bytes below `target`, and return these, in order.

    Raises NotRewrittenError if the files have different schemas, codecs or other metadata, or if one is damaged.
    """
    first = _header_of(files[0])
    codec = first.metadata["avro.codec"].decode(errors="backslashreplace")
    for file in files[1:]:
        if _header_of(file).metadata != first.metadata:
            raise NotRewrittenError("its files have different schemas, codecs or metadata")
    target.mkdir()
    made, size = list[Path](), target_size
    for file in files:
        if size >= target_size:
            made.append(target / f"part-{len(made):05d}")
            made[-1].write_bytes(first.content)
        with made[-1].open("ab") as opened:
            for block in _blocks(file):
                _require_whole(block, codec)
                opened.write(_number(block.rows) + _number(len(block.content)) + block.content + first.sync)
            size = opened.tell()
    if _sums(files) != _sums(made):
        raise NotRewrittenError("the new files do not hold the blocks of the old ones")
    return made


def _require_whole(block: _Block, codec: str) -> None:
    most = bound_of(len(block.content), most=_LONGEST_BLOCK)
    try:
        inflated(codec, block.content, most=most)
    except DamagedError as wrong:
        raise NotRewrittenError(
            f"it holds an Avro file that is damaged or too large: a block cannot be inflated: {wrong}"
        ) from wrong


def _sums(files: Sequence[Path]) -> tuple[int, int]:
    """Return the number of rows, and a sum over all blocks that does not depend on their order."""
    count = total = 0
    for file in files:
        for block in _blocks(file):
            count += block.rows
            digest = blake2b(_number(block.rows) + block.content, digest_size=16).digest()
            total = (total + int.from_bytes(digest, "big")) % _SPACE
    return count, total


def _header_of(file: Path) -> _Header:
    with file.open("rb") as opened:
        return _header(opened)


def _header(opened: BinaryIO) -> _Header:
    if opened.read(len(MAGIC)) != MAGIC:
        raise NotRewrittenError("it holds a file that is not Avro")
    metadata: dict[str, Any] = {}
    while count := _read_number(opened):
        if count < 0:  # the size of these pairs in bytes follows, which nothing needs
            count, _ = -count, _read_number(opened)
        if len(metadata) + count > _MOST_METADATA:
            raise NotRewrittenError("it holds an Avro file with too much metadata")
        for _ in range(count):
            key = _read_bytes(opened).decode(errors="backslashreplace")
            metadata[key] = _read_bytes(opened)
    try:
        metadata[_SCHEMA] = json.loads(metadata[_SCHEMA])
    except (KeyError, ValueError, RecursionError) as wrong:
        raise NotRewrittenError("it holds an Avro file with a schema that cannot be read") from wrong
    metadata.setdefault("avro.codec", b"null")
    sync, end = _exactly(opened, _SYNC), opened.tell()
    opened.seek(0)
    return _Header(content=_exactly(opened, end), metadata=metadata, sync=sync)


def _blocks(file: Path) -> Iterator[_Block]:
    with file.open("rb") as opened:
        sync = _header(opened).sync
        while opened.peek(1):
            rows, content = _read_number(opened), _read_bytes(opened)
            if rows < 0 or _exactly(opened, _SYNC) != sync:
                raise NotRewrittenError("it holds a damaged Avro file")
            yield _Block(rows=rows, content=content)


def _read_bytes(opened: BinaryIO) -> bytes:
    size = _read_number(opened)
    if not 0 <= size <= _LONGEST_BLOCK:
        raise NotRewrittenError("it holds a damaged Avro file, or one with a block of 512 MiB")
    return _exactly(opened, size)


def _exactly(opened: BinaryIO, size: int) -> bytes:
    content = opened.read(size)
    if len(content) != size:
        raise NotRewrittenError("it holds an Avro file that has no end")
    return content


def _read_number(opened: BinaryIO) -> int:
    """Read a `long`: seven bits a byte, the lowest first, and zigzag."""
    value = 0
    for place in range(_LONGEST_NUMBER):
        [byte] = _exactly(opened, 1)
        value |= (byte & 0x7F) << (7 * place)
        if not byte & 0x80:
            return (value >> 1) ^ -(value & 1)
    raise NotRewrittenError("it holds a damaged Avro file")


def _number(value: int) -> bytes:
    """Return a `long` that is not negative as Avro writes it."""
    left, written = value << 1, bytearray()
    while left > 0x7F:
        written.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*written, left])
