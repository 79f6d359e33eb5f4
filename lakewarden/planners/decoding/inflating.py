"""Inflates compressed content within bounds. A few kilobytes may stand for gigabytes of zeros."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from lakewarden.planners.decoding.damage import DamagedError, OversizedError

_ALWAYS = 16 * 2**20
_MOST_HELD = 512 * 2**20
_MOST_RATIO = 32
"""The most bytes for one compressed byte. Metadata usually shrinks to about a tenth. Only content that repeats itself
without end shrinks to less than a thirtieth."""

_AT_ONCE = 8 * 2**20
_HALF = "its compressed content is half-written or damaged"
_GZIP = 16 + zlib.MAX_WBITS
_RAW = -zlib.MAX_WBITS
_SNAPPY_CHECKSUM = 4
_CUT_OFF = "Truncated compressed stream"
"""The text of Arrow's error for content that ends too early."""


_Found = TypeVar("_Found")


class CutOffError(DamagedError):
    """The content ends too early and is sound up to there. Its writer was killed."""


class UnknownCodecError(DamagedError):
    """The content may be sound, and its codec is unknown. The message says which codecs are known."""


def bound_of(compressed: int, *, most: int) -> int:
    """Return the most bytes to which so many compressed ones may grow: at most `most`."""
    return min(most, _ALWAYS + _MOST_RATIO * compressed)


def gunzipped(parts: Iterable[bytes], *, most: int) -> Iterator[bytes]:
    """Yield the content of one or several gzip members, in pieces of some megabytes. Raises DamagedError, also if it is
    more than `most` bytes.
    """
    inflater: Any = None
    compressed = grown = 0
    for part in parts:
        compressed += len(part)
        held, more = part, False
        while held or more:
            inflater = inflater or zlib.decompressobj(_GZIP)
            try:
                chunk = inflater.decompress(held, _AT_ONCE)
            except zlib.error as wrong:
                raise DamagedError(_HALF) from wrong
            grown += len(chunk)
            if grown > bound_of(compressed, most=most):
                raise OversizedError(f"its compressed content grows beyond {bound_of(compressed, most=most)} bytes")
            yield chunk
            held, more = inflater.unconsumed_tail, len(chunk) == _AT_ONCE
            if inflater.eof:
                held, more, inflater = inflater.unused_data.lstrip(b"\0"), False, None
    if inflater is not None:
        raise CutOffError(_HALF)


def unpacked(parts: Iterable[bytes], *, most: int) -> Iterator[bytes]:
    """Yield the content of one or several zstd frames, in pieces of some megabytes. Raises what `gunzipped` raises, and
    DamagedError for more than 512 MiB of compressed content, which is held whole.
    """
    compressed = bytearray()
    for part in parts:
        compressed += part
        if len(compressed) > _MOST_HELD:
            raise OversizedError(f"its content compressed by zstd has more than {_MOST_HELD} bytes")
    grown, bound = 0, bound_of(len(compressed), most=most)
    stream = _by_arrow(lambda arrow: arrow.CompressedInputStream(arrow.BufferReader(bytes(compressed)), "zstd"))
    while chunk := _by_arrow(lambda _: stream.read(_AT_ONCE)):
        grown += len(chunk)
        if grown > bound:
            raise OversizedError(f"its compressed content grows beyond {bound} bytes")
        yield chunk


def inflated(codec: str, content: bytes, *, most: int) -> bytes:
    """Return a block of an Avro container. Raises DamagedError, also if it is more than `most` bytes, and
    UnknownCodecError.

    Source: Avro specification, "Required Codecs" and "Optional Codecs". Deflate has no header there, and snappy has a
    checksum at its end.
    """
    inflate = _CODECS.get(codec)
    if inflate is None:
        codecs = ", ".join(sorted(_CODECS))
        raise UnknownCodecError(
            f"its Avro codec {codec[:40]!r} is unknown to Lakewarden: have it written with one of {codecs}"
        )
    return inflate(content, most)


def _inflated(inflater: Any, content: bytes, most: int) -> bytes:
    try:
        block = inflater.decompress(content, most + 1)
    except (zlib.error, OSError, ValueError, EOFError, lzma.LZMAError) as wrong:
        raise DamagedError(_HALF) from wrong
    return _whole(block, most, ended=inflater.eof)


def _whole(block: bytes, most: int, *, ended: bool) -> bytes:
    if len(block) > most:
        raise OversizedError(f"its compressed content grows beyond {most} bytes")
    if not ended:
        raise DamagedError(_HALF)
    return block


def _snappy(content: bytes, most: int) -> bytes:
    """Inflate snappy content. It begins with the number of inflated bytes, as a varint."""
    size, shift = 0, 0
    for byte in content[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > most:
        raise OversizedError(f"its compressed content grows beyond {most} bytes")
    body = content[:-_SNAPPY_CHECKSUM]
    block: bytes = _by_arrow(lambda arrow: arrow.decompress(body, decompressed_size=size, codec="snappy", asbytes=True))
    if zlib.crc32(block) != int.from_bytes(content[-_SNAPPY_CHECKSUM:], "big"):
        raise DamagedError(_HALF)
    return block


def _zstandard(content: bytes, most: int) -> bytes:
    def read(arrow: Any) -> bytes:
        with arrow.CompressedInputStream(arrow.BufferReader(content), "zstd") as stream:
            return bytes(stream.read(most + 1))

    return _whole(_by_arrow(read), most, ended=True)


def _by_arrow(act: Callable[[Any], _Found]) -> _Found:
    import pyarrow as pa  # noqa: PLC0415 - most files do not need it

    try:
        return act(pa)
    except (pa.ArrowException, OSError, ValueError) as wrong:
        raise (CutOffError if _CUT_OFF in str(wrong) else DamagedError)(_HALF) from wrong


_CODECS: Mapping[str, Callable[[bytes, int], bytes]] = {
    "null": lambda content, most: _whole(content, most, ended=True),
    "deflate": lambda content, most: _inflated(zlib.decompressobj(_RAW), content, most),
    "bzip2": lambda content, most: _inflated(bz2.BZ2Decompressor(), content, most),
    "xz": lambda content, most: _inflated(lzma.LZMADecompressor(memlimit=2**27), content, most),
    "snappy": _snappy,
    "zstandard": _zstandard,
}
