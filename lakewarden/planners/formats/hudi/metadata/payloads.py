"""The content of a timeline's files: Avro with its writer's schema, JSON, or nothing at all (docs/hudi.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from lakewarden.planners.decoding.avro import MAGIC, opened
from lakewarden.planners.decoding.chunks import avro_chunks
from lakewarden.planners.decoding.damage import DamagedError
from lakewarden.planners.decoding.json_text import from_json
from lakewarden.planners.ports import Storage
from lakewarden.planners.settings import format_size

_T = TypeVar("_T")
_Of_co = TypeVar("_Of_co", covariant=True)

WHOLE = 64 * 2**20
"""A payload up to this size may be decoded whole, if its decoder needs that."""

LARGE = 8 * 2**20
"""A larger payload (a plan of some 50,000 files) is decoded in pieces if its decoder takes them."""

LARGEST = 2**30
"""A larger payload (a plan of six million files) is not read at all: it would take minutes."""

Chunks = Iterable[Mapping[str, Any]]
"""A record in pieces, as `avro_chunks` makes them: one of a small record, none of an empty file."""

MALFORMED = (KeyError, TypeError, AttributeError, ValueError, OverflowError, IndexError)
"""What taking a record apart raises if it is whole but not written by Hudi."""


class UnreadableError(Exception):
    """A payload that is half-written or damaged."""


class PayloadTooLargeError(UnreadableError):
    """A payload that is larger than Lakewarden reads."""


@runtime_checkable
class TakesChunks(Protocol[_Of_co]):
    """A decoder that takes a record in pieces, and so one of any size."""

    def of(self, chunks: Chunks, /) -> _Of_co:
        """Decode a record."""
        ...


@dataclass(frozen=True, slots=True)
class InChunks(Generic[_T]):
    """A decoder that is a function of pieces."""

    of: Callable[[Chunks], _T]

    def __call__(self, record: Mapping[str, Any] | None) -> _T:
        """Decode a record that is there whole; None if the file is empty."""
        return self.of(() if record is None else (record,))


def first(chunks: Chunks, *names: str) -> Mapping[str, Any]:
    """Return those texts and numbers of a record that exist. Reading stops when all are found."""
    found: dict[str, Any] = {}
    for chunk in chunks:
        found.update((name, chunk[name]) for name in names if name in chunk)
        if len(found) == len(names):
            break
    return found


def present(chunks: Chunks) -> Chunks:
    """Return a record that must be there. Raises UnreadableError, when it is read, if the file is empty."""
    empty = True
    for chunk in chunks:
        empty = False
        yield chunk
    if empty:
        raise UnreadableError("it is empty")


def read_chunks(storage: Storage, location: str, *, size: int | None = None) -> Iterator[Mapping[str, Any]]:
    """Yield the one record of a payload of `size` bytes (None: not known). A large record comes in pieces.

    Raises UnreadableError as `decode` does. Raises TooLargeError if the payload is larger than LARGEST, or as JSON
    larger than WHOLE. Raises what the storage raises.
    """
    if size is not None and size > LARGEST:
        raise PayloadTooLargeError(f"larger than {format_size(LARGEST)}")
    if (size is None or size > LARGE) and storage.read_part(location, begin=0, size=len(MAGIC)) == MAGIC:
        try:
            yield from avro_chunks(lambda begin, most: storage.read_part(location, begin=begin, size=most))
        except DamagedError as error:
            raise UnreadableError(str(error)) from error
        return
    if size is not None and size > WHOLE:
        raise PayloadTooLargeError(f"larger than {format_size(WHOLE)}")
    record = decode(storage.read(location))
    if record is not None:
        yield record


def decode(content: bytes) -> Mapping[str, Any] | None:
    """Return the one record of a payload, or None if it is empty.

    The first bytes tell the encoding, which is more robust than the table's version. Raises UnreadableError for
    content that ends early, makes no sense, or needs more time or memory than a sound one.
    """
    if not content:
        return None
    try:
        record = opened(content).record() if content.startswith(MAGIC[: len(content)]) else from_json(content)
    except DamagedError as error:
        raise UnreadableError(str(error)) from error
    if not isinstance(record, Mapping):
        raise UnreadableError("its content is no record")
    return record
