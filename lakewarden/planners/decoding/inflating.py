"""Compressed content, inflated as far as is sound: a few kilobytes may stand for gigabytes of zeros."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from lakewarden.planners.decoding.damage import DamagedError

_ALWAYS = 16 * 2**20
_MOST_RATIO = 32
"""Metadata shrinks to a tenth or so; only what repeats itself without end shrinks to less than a thirtieth."""

_AT_ONCE = 8 * 2**20
_HALF = "its compressed content is half-written or damaged"
_GZIP = 16 + zlib.MAX_WBITS
_RAW = -zlib.MAX_WBITS
_SNAPPY_CHECKSUM = 4


class CutOffError(DamagedError):
    """What is sound ends before it should: its writer was killed."""


class _Inflater(Protocol):
    """One of the standard library's decompressors."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


def bound_of(compressed: int, *, most: int) -> int:
    """Return to how many bytes so many compressed ones may grow: at most `most`."""
    return min(most, _ALWAYS + _MOST_RATIO * compressed)


def gunzipped(parts: Iterable[bytes], *, most: int) -> Iterator[bytes]:
    """Yield what one or several gzip members hold, cut anywhere, some megabytes at a time. Raises DamagedError, also
    where it is more than `most` bytes.
    """
    inflater: Any = None
    compressed = grown = 0
    for part in parts:
        compressed += len(part)
        held, more = part, False
        while held or more:
            inflater = inflater or zlib.decompressobj(_GZIP)
            try:
                found = inflater.decompress(held, _AT_ONCE)
            except zlib.error as wrong:
                raise DamagedError(_HALF) from wrong
            grown += len(found)
            if grown > bound_of(compressed, most=most):
                raise DamagedError(f"its compressed content grows beyond {bound_of(compressed, most=most)} bytes")
            yield found
            held, more = inflater.unconsumed_tail, len(found) == _AT_ONCE
            if inflater.eof:
                held, more, inflater = inflater.unused_data.lstrip(b"\0"), False, None
    if inflater is not None:
        raise CutOffError(_HALF)


def inflated(codec: str, content: bytes, *, most: int) -> bytes:
    """Return a block of an Avro container. Raises DamagedError, also where it is more than `most` bytes, and for a
    codec that is unknown.

    Source: Avro specification, "Required Codecs" and "Optional Codecs"; deflate has no header there, and snappy a
    checksum at its end.
    """
    inflate = _CODECS.get(codec)
    if inflate is None:
        known = ", ".join(sorted(_CODECS))
        raise DamagedError(
            f"its Avro codec {codec[:40]!r} is unknown to Lakewarden: have it written with one of {known}"
        )
    return inflate(content, most)


def _inflated(inflater: _Inflater, content: bytes, most: int) -> bytes:
    try:
        found = inflater.decompress(content, most + 1)
    except (zlib.error, OSError, ValueError, EOFError, lzma.LZMAError) as wrong:
        raise DamagedError("its compressed content is half-written or damaged") from wrong
    return _whole(found, most, ended=inflater.eof)


def _whole(found: bytes, most: int, *, ended: bool) -> bytes:
    if len(found) > most:
        raise DamagedError(f"its compressed content grows beyond {most} bytes")
    if not ended:
        raise DamagedError("its compressed content is half-written or damaged")
    return found


def _plain(content: bytes, most: int) -> bytes:
    return _whole(content, most, ended=True)


def _deflate(content: bytes, most: int) -> bytes:
    return _inflated(zlib.decompressobj(_RAW), content, most)


def _bzip2(content: bytes, most: int) -> bytes:
    return _inflated(bz2.BZ2Decompressor(), content, most)


def _xz(content: bytes, most: int) -> bytes:
    return _inflated(lzma.LZMADecompressor(memlimit=2**27), content, most)


def _snappy(content: bytes, most: int) -> bytes:
    """Inflate what begins with the number of bytes that it stands for, as a varint."""
    size, shift = 0, 0
    for byte in content[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > most:
        raise DamagedError(f"its compressed content grows beyond {most} bytes")
    body = content[:-_SNAPPY_CHECKSUM]
    found = _by_arrow(lambda arrow: arrow.decompress(body, decompressed_size=size, codec="snappy", asbytes=True))
    if zlib.crc32(found) != int.from_bytes(content[-_SNAPPY_CHECKSUM:], "big"):
        raise DamagedError("its compressed content is half-written or damaged")
    return found


def _zstandard(content: bytes, most: int) -> bytes:
    def read(arrow: Any) -> bytes:
        with arrow.CompressedInputStream(arrow.BufferReader(content), "zstd") as stream:
            return bytes(stream.read(most + 1))

    return _whole(_by_arrow(read), most, ended=True)


def _by_arrow(act: Callable[[Any], bytes]) -> bytes:
    import pyarrow as pa  # noqa: PLC0415 - most files need none of it

    try:
        return act(pa)
    except (pa.ArrowException, OSError, ValueError) as wrong:
        raise DamagedError("its compressed content is half-written or damaged") from wrong


_CODECS: Mapping[str, Callable[[bytes, int], bytes]] = {
    "null": _plain,
    "deflate": _deflate,
    "bzip2": _bzip2,
    "xz": _xz,
    "snappy": _snappy,
    "zstandard": _zstandard,
}
