"""The content of a timeline's files: Avro with its writer's schema, JSON, or nothing at all (docs/hudi.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from lakewarden.planners.decoding.avro import MAGIC, opened
from lakewarden.planners.decoding.damage import DamagedError
from lakewarden.planners.decoding.json_text import from_json
from lakewarden.planners.decoding.pieces import avro_pieces
from lakewarden.planners.ports import Storage
from lakewarden.planners.settings import format_size

_T = TypeVar("_T")
_Of_co = TypeVar("_Of_co", covariant=True)

WHOLE = 64 * 2**20
"""A payload of so many bytes may be decoded whole, where what is made of it needs it so."""

LARGE = 8 * 2**20
"""A larger payload (a plan of some 50,000 files) is decoded in pieces where it may be."""

LARGEST = 2**30
"""A larger one (a plan of six million files) is not read at all: it would take minutes."""

Pieces = Iterable[Mapping[str, Any]]
"""A record in pieces, as `avro_pieces` makes them: one of a small record, none of an empty file."""

MALFORMED = (KeyError, TypeError, AttributeError, ValueError, OverflowError, IndexError)
"""What taking a record apart raises if it is whole but not what Hudi writes."""


class UnreadableError(Exception):
    """A payload that is half-written or damaged."""


class TooLargeError(UnreadableError):
    """A payload that is larger than what is read of one."""


@runtime_checkable
class TakesPieces(Protocol[_Of_co]):
    """A decoder that takes a record in pieces, and so one of any size."""

    def of(self, pieces: Pieces, /) -> _Of_co:
        """Decode a record."""
        ...


@dataclass(frozen=True, slots=True)
class InPieces(Generic[_T]):
    """A decoder that is a function of pieces."""

    of: Callable[[Pieces], _T]

    def __call__(self, record: Mapping[str, Any] | None) -> _T:
        """Decode a record that is there whole; None if the file is empty."""
        return self.of(() if record is None else (record,))


def first(pieces: Pieces, *names: str) -> Mapping[str, Any]:
    """Return those of a record's texts and numbers that are there, once all of them are, or else at its end."""
    found: dict[str, Any] = {}
    for piece in pieces:
        found.update((name, piece[name]) for name in names if name in piece)
        if len(found) == len(names):
            break
    return found


def present(pieces: Pieces) -> Pieces:
    """Return a record that must be there. Raises UnreadableError, once it is asked for, if the file is empty."""
    empty = True
    for piece in pieces:
        empty = False
        yield piece
    if empty:
        raise UnreadableError("it is empty")


def read_pieces(storage: Storage, location: str, *, size: int | None = None) -> Iterator[Mapping[str, Any]]:
    """Yield the one record of a payload of `size` bytes (None: not known), in pieces where it is large.

    Raises UnreadableError as `decode` does, TooLargeError for one that is larger than LARGEST, or as JSON larger than
    WHOLE, and what the storage raises.
    """
    if size is not None and size > LARGEST:
        raise TooLargeError(f"larger than {format_size(LARGEST)}")
    if (size is None or size > LARGE) and storage.read_part(location, begin=0, size=len(MAGIC)) == MAGIC:
        try:
            yield from avro_pieces(lambda begin, most: storage.read_part(location, begin=begin, size=most))
        except DamagedError as error:
            raise UnreadableError(str(error)) from error
        return
    if size is not None and size > WHOLE:
        raise TooLargeError(f"larger than {format_size(WHOLE)}")
    record = decode(storage.read(location))
    if record is not None:
        yield record


def decode(content: bytes) -> Mapping[str, Any] | None:
    """Return the one record of a payload, or None if it is empty.

    The first bytes tell the encoding, which is sturdier than switching on the table's version. Raises
    UnreadableError for content that ends early, makes no sense, or asks for more time or memory than a sound one.
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
