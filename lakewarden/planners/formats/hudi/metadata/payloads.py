"""The content of a timeline's files: Avro with its writer's schema, JSON, or nothing at all (docs/hudi.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from lakewarden.planners.decoding.avro import MAGIC, opened
from lakewarden.planners.decoding.chunks import avro_chunks
from lakewarden.planners.decoding.damage import DamagedError
from lakewarden.planners.decoding.json_stream import from_json
from lakewarden.planners.formats.hudi.metadata.names import (
    Action,
    InstantFile,
    InstantFiles,
    collapse,
    file_name,
    parser,
)
from lakewarden.planners.formats.hudi.metadata.properties import TableProperties
from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError
from lakewarden.planners.model.instant import Instant, InstantKind, Timeline
from lakewarden.planners.ports import FileEntry, Storage
from lakewarden.planners.settings import format_size

_T = TypeVar("_T")

WHOLE = 64 * 2**20
"""A payload up to this size may be decoded whole, if its encoding needs that."""

LARGE = 8 * 2**20
"""A larger payload (a plan of some 50,000 files) is decoded in pieces."""

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


def first(chunks: Chunks, *names: str) -> Mapping[str, Any]:
    """Return those texts and numbers of a record that exist. Reading stops when all are found."""
    fields: dict[str, Any] = {}
    for chunk in chunks:
        fields.update((name, chunk[name]) for name in names if name in chunk)
        if len(fields) == len(names):
            break
    return fields


def present(chunks: Chunks) -> Chunks:
    """Return a record that must be there. Raises UnreadableError, when it is read, if the file is empty."""
    empty = True
    for chunk in chunks:
        empty = False
        yield chunk
    if empty:
        raise UnreadableError("it is empty")


def read_chunks(
    storage: Storage, location: str, *, size: int | None = None, largest_whole: int = WHOLE
) -> Iterator[Mapping[str, Any]]:
    """Yield the one record of a payload of `size` bytes (None: not known). A large record comes in pieces.

    Raises UnreadableError as `decode` does. Raises TooLargeError if the payload is larger than LARGEST, or as JSON
    larger than `largest_whole`. Raises what the storage raises.
    """
    if size is not None and size > LARGEST:
        raise PayloadTooLargeError(f"larger than {format_size(LARGEST)}")
    if (size is None or size > LARGE) and storage.read_part(location, begin=0, size=len(MAGIC)) == MAGIC:
        try:
            yield from avro_chunks(lambda begin, most: storage.read_part(location, begin=begin, size=most))
        except DamagedError as error:
            raise UnreadableError(str(error)) from error
        return
    if size is not None and size > largest_whole:
        raise PayloadTooLargeError(f"larger than {format_size(largest_whole)}")
    record = decode(storage.read(location, limit=largest_whole))
    if record is not None:
        yield record


def surely_read(
    storage: Storage, folder: str, entry: FileEntry, make: Callable[[Chunks], _T], *, largest_whole: int = WHOLE
) -> _T:
    """Return what `make` makes of a file. Raises TemporaryError if the file is gone, or cannot be read whole."""
    location = f"{folder}/{entry.name}"
    try:
        return make(read_chunks(storage, location, size=entry.size, largest_whole=largest_whole))
    except (LakewardenError, FileNotFoundError, UnreadableError, *MALFORMED) as error:
        raise TemporaryError(f"{entry.name} cannot be read: {error}") from error


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
        raise UnreadableError("its content is not a record")
    return record


# A timeline's instants, all of them or none: for programs that are about to delete something.
#
# A listing can leave files out silently: a proxy loses a page, a store answers from a copy that is behind. So a file
# that was seen before, and is not listed now, is asked for by its own name. It is gone only if the store denies that
# very file: then it was archived, rolled back or withdrawn. A file that no listing has ever shown cannot be missed.


def whole_timeline(
    properties: TableProperties, storage: Storage, *, known: Timeline | None = None
) -> Sequence[InstantFiles]:
    """Return the instants of a table's active timeline, oldest requested time first.

    It is listed twice. The second listing must hold what the first one shows, and what is `known` from earlier
    observations. Raises TemporaryError if it leaves out a file that is there, or if the folder cannot be listed. A
    missing folder is no empty one here.
    """
    folder, layout = properties.timeline_folder, properties.layout
    try:
        first, second = storage.listing(folder), storage.listing(folder)
    except FileNotFoundError as error:
        raise TemporaryError(f"{folder} cannot be listed") from error
    parse = parser(len(first))
    names = [entry.name for entry in first if not entry.is_folder and parse(entry.name, layout) is not None]
    missing = [*left_out(names, second, folder, storage)]
    if known is not None:
        missing += missed(known, second, collapse(second, layout), folder, storage)
    if missing:
        raise TemporaryError(not_whole(folder, missing))
    return collapse(second, layout)


def left_out(expected: Iterable[str], entries: Sequence[FileEntry], folder: str, storage: Storage) -> Sequence[str]:
    """Return those of the expected files that are in the folder although its listing does not show them.

    Raises TemporaryError if the store does not answer.
    """
    names = {entry.name for entry in entries}
    return [name for name in dict.fromkeys(expected) if name not in names and _is_there(f"{folder}/{name}", storage)]


def not_whole(folder: str, missing: Sequence[str]) -> str:
    """Return in words that a listing left out files that exist."""
    more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
    return f"the listing of {folder} is not whole: it leaves out {missing[0]}{more}"


def missed(
    known: Timeline, entries: Sequence[FileEntry], shown: Sequence[InstantFiles], folder: str, storage: Storage
) -> Sequence[str]:
    """Return the files of `known` instants that a listing leaves out although they are there. `shown` are the instants
    that it shows.

    Archiving may remove hundreds of instants at once, the oldest first. Of the completed ones older than everything
    listed only the newest is asked for. Savepoints and pending instants are always asked for.
    """
    oldest = shown[0].time if shown else ""
    older = [
        i for i in known.instants if i.time < oldest and not i.pending and i.stands_for is not InstantKind.SAVEPOINT
    ]
    passed_over = frozenset(older[:-1])
    there = {(instant.time, instant.action.value, instant.state, instant.completed_time) for instant in shown}
    instants = (
        i for i in known.instants if (i.time, i.action, i.state, i.completed_time) not in there and i not in passed_over
    )
    return left_out(map(name_of, instants), entries, folder, storage)


def name_of(instant: Instant) -> str:
    """Return the name of the file by which an instant is in the state that a timeline shows."""
    action = Action(instant.action)
    return file_name(
        InstantFile(
            time=instant.time,
            action=action if instant.pending else action.completed_as,
            state=instant.state,
            completed_time=instant.completed_time,
        )
    )


def _is_there(path: str, storage: Storage) -> bool:
    try:
        storage.read(path, limit=0)
    except FileNotFoundError:
        return False
    except PermanentError:
        return True  # it is larger than the limit
    return True
