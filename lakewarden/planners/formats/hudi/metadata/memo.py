"""What one observation passes to the next: the few facts that cost a read, by the file they were read from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, TypeVar, cast

from lakewarden.planners.formats.hudi.metadata.payloads import (
    LARGE,
    MALFORMED,
    WHOLE,
    PayloadTooLargeError,
    TakesChunks,
    UnreadableError,
    decode,
    read_chunks,
)
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.ports import FileEntry, Storage
from lakewarden.planners.settings import format_size

_T = TypeVar("_T")
Decoder = Callable[[Mapping[str, Any] | None], _T]
"""Makes a fact of a file's record (None: the file is empty)."""


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
            return self._known(entry, make)
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
            return self._known(entry, make)
        except (FileNotFoundError, UnreadableError, PermanentError, *MALFORMED):
            return None

    def forget(self, entry: FileEntry, make: Decoder[Any]) -> None:
        """Do not pass a fact on. The next reading computes it again."""
        self.kept.pop((entry.name, make), None)

    def derive(self, files: tuple[str, ...], make: Callable[..., _T], *arguments: Any) -> _T:
        """Return what `make` makes of its arguments, from memory if they come from the same files as the last time."""
        known = self.remembered.derived.get(make)
        if known is None or known.files != files:
            known = Derived(files=files, value=make(*arguments))
        self.derived[make] = known
        return cast(_T, known.value)

    def memo(self) -> Memo:
        """Return what the next reading may remember."""
        return Memo(facts=self.kept, derived=self.derived, unlisted=tuple(self.unlisted))

    def _known(self, entry: FileEntry, make: Decoder[_T]) -> _T:
        known = self.remembered.facts.get((entry.name, make))
        if known is None or known[:3] != (entry.size, entry.modified, entry.version):
            fact = self._read(entry, make)
            known = Remembered(size=entry.size, modified=entry.modified, version=entry.version, fact=fact)
        self.kept[entry.name, make] = known
        if isinstance(known.fact, UnreadableError):
            raise known.fact.with_traceback(None)
        return cast(_T, known.fact)

    def _read(self, entry: FileEntry, make: Decoder[_T]) -> _T | UnreadableError:
        """Return a fact of a file; for a large one without a fact the reason, so that it is not read again for it."""
        location = f"{self.folder}/{entry.name}"
        if entry.size <= LARGE:
            return make(decode(self.storage.read(location)))
        try:
            if isinstance(make, TakesChunks):
                fact: _T = make.of(read_chunks(self.storage, location, size=entry.size))
                return fact
            if entry.size > WHOLE:
                raise PayloadTooLargeError(f"larger than {format_size(WHOLE)}")
            return make(decode(self.storage.read(location)))
        except UnreadableError as error:
            return error
        except MALFORMED as error:
            return UnreadableError(f"not what Hudi writes: {type(error).__name__} {error}")
