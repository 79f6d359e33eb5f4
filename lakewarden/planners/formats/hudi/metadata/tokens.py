"""The token of a Hudi table: the version of its properties, and the stamp of its timeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, TypeVar, cast

from lakewarden.planners.formats.hudi.metadata.payloads import (
    LARGE,
    MALFORMED,
    Chunks,
    PayloadTooLargeError,
    UnreadableError,
    read_chunks,
)
from lakewarden.planners.formats.hudi.metadata.properties import FILE, HOME, TIMELINE, read_table_properties
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.view import TableIdentity
from lakewarden.planners.ports import FileEntry, Storage
from lakewarden.planners.storage.content import listed

_MOST_REMEMBERED = 100_000


class Tokens:
    """Asks each storage for two things at most: in an object store one HEAD, and one listing of the folder that the
    properties name. Another listing, of `.hoodie`, would double the price of a table's polls.

    The place of a table's timeline is remembered while its properties are of the version in which they named it.
    Thread-safe.
    """

    def __init__(self) -> None:
        self._timelines: dict[str, tuple[str, str]] = {}

    def of(self, location: str, storage: Storage) -> str:
        """Return the token of the table at `location`.

        Raises PermanentError if there is none, and what reading its properties raises.
        """
        version = _version(location, storage)
        if version is None:  # Hudi may be replacing it just now, by way of a backup
            return _of_both_folders(location, storage)
        timeline = self._timeline(location, storage, version)
        try:
            return f"{version}/{storage.stamp(timeline)}"
        except FileNotFoundError:
            return version

    def _timeline(self, location: str, storage: Storage, version: str) -> str:
        """Return the folder of the timeline. It is remembered only if the properties that name it are known to be of
        that version: those read may be newer, and the older ones may be put back.
        """
        memory = self._timelines.get(location)
        if memory is not None and memory[0] == version:
            return memory[1]
        timeline = read_table_properties(location, storage).timeline_folder
        if _version(location, storage) == version:
            if len(self._timelines) >= _MOST_REMEMBERED:
                self._timelines.clear()
            self._timelines[location] = (version, timeline)
        return timeline


def _version(location: str, storage: Storage) -> str | None:
    try:
        return storage.version(f"{location}/{HOME}/{FILE}")
    except FileNotFoundError:
        return None


def _of_both_folders(location: str, storage: Storage) -> str:
    """Return the stamps of `.hoodie` and of the default folder of timelines of layout 2 in it."""
    home = f"{location}/{HOME}"
    try:
        stamp = storage.stamp(home)
    except FileNotFoundError as error:
        raise PermanentError(f"{location} holds no Hudi table: it has no {HOME} folder") from error
    try:
        return f"{stamp}/{storage.stamp(f'{home}/{TIMELINE}')}"
    except FileNotFoundError:
        return stamp


# What one observation passes to the next: the few facts that cost a read, by the file they were read from.

_T = TypeVar("_T")
Decoder = Callable[[Chunks], _T]
"""Makes a fact of a file's record."""


class Remembered(NamedTuple):
    """A fact with the size, the time and the store's version of the file it was read from."""

    size: int
    modified: datetime
    version: str
    fact: Any


class Derived(NamedTuple):
    """What was made of many facts, with the names of the files that they came from."""

    files: tuple[str, ...]
    value: Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Memo:
    """Facts by their file's name and their decoder, and values derived from many facts by their function. `unlisted`
    are files that were there although the listing left them out.
    """

    facts: Mapping[tuple[str, Decoder[Any]], Remembered] = field(default_factory=dict)
    derived: Mapping[Callable[..., Any], Derived] = field(default_factory=dict)
    unlisted: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """One pass over a timeline's payloads. Facts that were needed are kept. A file that cannot be read is a fault, and
    one that is too large is a remark.
    """

    storage: Storage
    folder: str
    remembered: Memo
    kept: dict[tuple[str, Decoder[Any]], Remembered] = field(default_factory=dict)
    derived: dict[Callable[..., Any], Derived] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    unlisted: list[str] = field(default_factory=list)

    def fact(self, entry: FileEntry, make: Decoder[_T]) -> _T | None:
        """Return what `make` makes of a file's record, from memory if the file has not changed since.

        None, and a fault, if the file cannot be read. None, and a remark, if it is too large.
        """
        try:
            return self._recall(entry, make)
        except PayloadTooLargeError as error:
            self.remarks.append(f"{entry.name} is {error}: its content is not read")
        except FileNotFoundError:
            self.faults.append(f"{entry.name} disappeared while it was read")
        except (UnreadableError, PermanentError) as error:
            self.faults.append(f"{entry.name} cannot be read: {error}")
        except MALFORMED as error:
            self.faults.append(f"{entry.name} is not what Hudi writes: {type(error).__name__} {error}")
        return None

    def fact_if_whole(self, entry: FileEntry, make: Decoder[_T]) -> _T | None:
        """Return the same for a file that may be half-written or gone, and then without a fault."""
        try:
            return self._recall(entry, make)
        except (FileNotFoundError, UnreadableError, PermanentError, *MALFORMED):
            return None

    def forget(self, entry: FileEntry, make: Decoder[Any]) -> None:
        """Do not pass a fact on. The next reading computes it again."""
        self.kept.pop((entry.name, make), None)

    def derive(self, files: tuple[str, ...], make: Callable[..., _T], *arguments: Any) -> _T:
        """Return what `make` makes of its arguments, from memory if they come from the same files as the last time."""
        memory = self.remembered.derived.get(make)
        if memory is None or memory.files != files:
            memory = Derived(files=files, value=make(*arguments))
        self.derived[make] = memory
        return cast(_T, memory.value)

    def memo(self) -> Memo:
        """Return what the next reading may remember."""
        return Memo(facts=self.kept, derived=self.derived, unlisted=tuple(self.unlisted))

    def _recall(self, entry: FileEntry, make: Decoder[_T]) -> _T:
        memory = self.remembered.facts.get((entry.name, make))
        if memory is None or memory[:3] != (entry.size, entry.modified, entry.version):
            fact = self._read(entry, make)
            memory = Remembered(size=entry.size, modified=entry.modified, version=entry.version, fact=fact)
        self.kept[entry.name, make] = memory
        if isinstance(memory.fact, UnreadableError):
            raise memory.fact.with_traceback(None)
        return cast(_T, memory.fact)

    def _read(self, entry: FileEntry, make: Decoder[_T]) -> _T | UnreadableError:
        """Return a fact of a file; for a large one without a fact the reason, so that it is not read again for it."""
        try:
            return make(read_chunks(self.storage, f"{self.folder}/{entry.name}", size=entry.size))
        except (UnreadableError, *MALFORMED) as error:
            if entry.size <= LARGE:
                raise
            if isinstance(error, UnreadableError):
                return error
            return UnreadableError(f"not what Hudi writes: {type(error).__name__} {error}")


# The identity of a Hudi table. It changes if the table is dropped and created again.

_MADE_ONCE = f"{HOME}/.aux/.bootstrap"
UNKNOWN = "unknown"


def table_identity(location: str, storage: Storage) -> TableIdentity:
    """Return the identity of the table at a canonical location.

    Nothing inside `hoodie.properties` is unique (its checksum covers only the table's name). The file changes with
    every upgrade, and so does `.hoodie` itself. But Hudi makes the folders below `.hoodie/.aux/.bootstrap` once, when
    it creates the table, and only bootstrap ever writes there. The oldest of their modification times is the table's
    time of creation.

    Limits: if a copy or restore does not keep folder times, the result is another table, with new leases and no pauses.
    If the folders are missing or have no times (object stores, tables of other makers), all tables that ever were at
    the location count as one.
    """
    folders = listed(f"{location}/{_MADE_ONCE}", storage)
    times = [folder.modified for folder in folders if folder.is_folder and folder.modified.timestamp() > 0]
    made = min(times, default=None)
    return TableIdentity(location=location, created=UNKNOWN if made is None else f"{made:%Y%m%dT%H%M%S.%f}")
