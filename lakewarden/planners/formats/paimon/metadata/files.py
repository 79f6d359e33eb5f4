"""Reading the small files of a Paimon table, and what is raised where one is gone, damaged or too new."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from typing import Any, TypeVar
from urllib.parse import quote

from lakewarden.planners.decoding.damage import DamagedError
from lakewarden.planners.decoding.json_stream import from_json
from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError
from lakewarden.planners.ports import Storage
from lakewarden.planners.storage.content import read_ahead

_T = TypeVar("_T")

LARGEST_JSON = 8 * 2**20
"""A snapshot has a kilobyte, a schema some hundred bytes for each column."""

LARGEST_MANIFEST = 512 * 2**20
"""A manifest is cut at `manifest.target-file-size`, which is 8 MiB by default."""

WAITS = (0.01, 0.04, 0.15, 0.3, 0.5)
"""The seconds to wait before a file that may be half written is read again."""

REMEDY = "restore it from a backup, or from what its store keeps of deleted files"

MALFORMED = (DamagedError, KeyError, TypeError, ValueError, AttributeError, OverflowError)
"""What damage, or a value of another type than the format's, leads to."""


class CorruptMetadataError(PermanentError):
    """A file of the table's metadata is none, or not whole."""


class NewerVersionError(PermanentError):
    """A file of the table's metadata is of a version that Lakewarden does not know."""


class VanishedError(TemporaryError):
    """A file that the table names is not there: an expiry or a rollback was faster."""


def corrupt(file: str, what: str, wrong: object) -> CorruptMetadataError:
    """Return the error for a file that should be `what`. A text of the file may stand in `wrong`."""
    text = str(wrong)[:200] if isinstance(wrong, DamagedError) else repr(wrong)[:200]
    return CorruptMetadataError(f"{file} is not a valid {what} of a Paimon table ({text}): {REMEDY}")


def require_known(file: str, what: str, version: int, newest: int) -> None:
    """Raise NewerVersionError for a version beyond the newest that is known."""
    if version > newest:
        raise NewerVersionError(
            f"{file} is a {what} of version {version}, and Lakewarden knows versions up to {newest}: upgrade "
            "Lakewarden, or write the table with an older release of Paimon"
        )


def content_of(file: str, storage: Storage, *, limit: int = LARGEST_MANIFEST) -> bytes:
    """Return what a file holds. Raises VanishedError, PermanentError and TemporaryError."""
    try:
        return storage.read(file, limit=limit)
    except FileNotFoundError as gone:
        raise VanishedError(f"{file}, which the table names, is not there: if it stays so, {REMEDY}") from gone


def once_whole(read: Callable[[], _T], *, pause: Callable[[float], None] = time.sleep) -> _T:
    """Return what `read` returns of a file that Paimon overwrites in its place, as it does with tags and consumers. For
    a moment such a file is half written, so `read` is called again for a second before its CorruptMetadataError counts
    (as by `Consumer.fromPath` of Paimon 1.3.1).
    """
    for wait in WAITS:
        try:
            return read()
        except CorruptMetadataError:
            pause(wait)
    return read()


def contents(files: Iterable[str], storage: Storage) -> Iterator[tuple[str, bytes | LakewardenError]]:
    """Yield files in their order, each with its content or with the error of reading it (`content_of`)."""
    return read_ahead(files, lambda file: _content_or_error(file, storage))


def _content_or_error(file: str, storage: Storage) -> bytes | LakewardenError:
    try:
        return content_of(file, storage)
    except LakewardenError as error:
        return error


def json_object(content: bytes, *, file: str, what: str) -> Mapping[str, Any]:
    """Return the object that a JSON file holds. Raises CorruptMetadataError."""
    try:
        document = from_json(content)
        if not isinstance(document, dict):
            raise DamagedError("it holds no object")
    except DamagedError as wrong:
        raise corrupt(file, what, wrong) from wrong
    return document


def file_name(value: Any) -> str:
    """Return a text that names a file of the same folder. Raises ValueError for any other value."""
    if not isinstance(value, str) or not 0 < len(value) <= 512 or "/" in value or value in (".", ".."):
        raise ValueError(f"{str(value)[:60]!r} is not a file name")
    return value


# The binary rows in which manifests keep the values of a partition.
#
# Source: `org.apache.paimon.data.BinaryRow` and `org.apache.paimon.utils.SerializationUtils` of Paimon 1.3.1: four
# bytes of arity, big-endian; then a word or more of null bits behind a byte of the row's kind, and eight bytes for each
# field, little-endian. A text of at most seven bytes stands in its field, a longer one behind them all.

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
        raise ValueError("its bytes are not a row of these types") from wrong


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
        text = body[at : at + (mark & 0x7F)]
    else:
        size, offset = struct.unpack_from("<ii", body, at)
        if offset < 0 or size < 0 or offset + size > len(body):
            raise ValueError("it has a text outside of the row")
        text = body[offset : offset + size]
    return text.decode("utf-8")


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
