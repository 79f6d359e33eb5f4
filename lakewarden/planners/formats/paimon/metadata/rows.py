"""The binary rows in which manifests keep the values of a partition.

Source: `org.apache.paimon.data.BinaryRow` and `org.apache.paimon.utils.SerializationUtils` of Paimon 1.3.1: four bytes
of arity, big-endian; then a word or more of null bits behind a byte of the row's kind, and eight bytes for each field,
little-endian. A text of at most seven bytes stands in its field, a longer one behind them all.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from urllib.parse import quote

_ARITY = 4
_KIND_BITS = 8
_WORD = 8
_INLINE = 0x80
_LONGEST = 256
_NULL = "__DEFAULT_PARTITION__"


def partition_path(row: bytes, keys: Sequence[str], types: Sequence[str]) -> str:
    """Return a partition as Paimon names its folder: `dt=2026-01-01/hr=1`; its bytes where they cannot be told."""
    if not keys:
        return ""
    try:
        values = _values(row, types)
    except (struct.error, IndexError, ValueError, KeyError, OverflowError):
        return f"0x{row.hex()[:64]}"
    return "/".join(f"{key}={value}" for key, value in zip(keys, values, strict=True))


def exact_values(row: bytes, types: Sequence[str]) -> list[str | None]:
    """Return the values of a partition as they are; None for an empty one. Raises ValueError if they cannot be told."""
    try:
        return [_exact(body, at, place, kind) for body, at, place, kind in _fields(row, types)]
    except (struct.error, IndexError, KeyError, OverflowError) as wrong:
        raise ValueError("its bytes are no row of these types") from wrong


def _exact(body: bytes, at: int, place: int, kind: str) -> str | None:
    if _is_null(body, place):
        return None
    return _whole_text(body, at) if _READERS[kind] is _text else _READERS[kind](body, at)


def _values(row: bytes, types: Sequence[str]) -> list[str]:
    return [
        _NULL if _is_null(body, place) else _READERS[kind](body, at) for body, at, place, kind in _fields(row, types)
    ]


def _fields(row: bytes, types: Sequence[str]) -> list[tuple[bytes, int, int, str]]:
    """Return for each field the row without its arity, where the field begins, its place and its type."""
    arity = int.from_bytes(row[:_ARITY], "big")
    if arity != len(types):
        raise ValueError("it has another number of fields")
    body = row[_ARITY:]
    begin = (arity + 63 + _KIND_BITS) // 64 * _WORD
    return [(body, begin + place * _WORD, place, kind) for place, kind in enumerate(types)]


def _is_null(body: bytes, place: int) -> bool:
    bit = place + _KIND_BITS
    return bool(body[bit // 8] & 1 << bit % 8)


def _text(body: bytes, at: int) -> str:
    return quote(_whole_text(body, at)[:_LONGEST], safe="-_.: ")


def _whole_text(body: bytes, at: int) -> str:
    mark = body[at + _WORD - 1]
    if mark & _INLINE:
        found = body[at : at + (mark & 0x7F)]
    else:
        size, offset = struct.unpack_from("<ii", body, at)
        if offset < 0 or size < 0 or offset + size > len(body):
            raise ValueError("it has a text outside of the row")
        found = body[offset : offset + size]
    return found.decode("utf-8")


def _number(form: str) -> Callable[[bytes, int], str]:
    return lambda body, at: str(struct.unpack_from(form, body, at)[0])


def _date(body: bytes, at: int) -> str:
    return str(date(1970, 1, 1) + timedelta(days=struct.unpack_from("<i", body, at)[0]))


_READERS: Mapping[str, Callable[[bytes, int], str]] = {
    **dict.fromkeys(("STRING", "VARCHAR", "CHAR"), _text),
    "BOOLEAN": lambda body, at: "true" if body[at] else "false",
    "TINYINT": _number("<b"),
    "SMALLINT": _number("<h"),
    "INT": _number("<i"),
    "BIGINT": _number("<q"),
    "DATE": _date,
}
