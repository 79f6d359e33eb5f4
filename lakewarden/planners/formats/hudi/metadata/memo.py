"""What one observation hands to the next: the few facts that cost a read, by the file they were read from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, TypeVar, cast

from lakewarden.planners.formats.hudi.metadata.payloads import (
    LARGE,
    MALFORMED,
    WHOLE,
    TakesPieces,
    TooLargeError,
    UnreadableError,
    decode,
    read_pieces,
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
    """Facts by the name of their file and what made them of it, and what was derived of many by what made that.
    `unlisted` are files that were there although the listing left them out.
    """

    facts: Mapping[tuple[str, Decoder[Any]], Remembered] = field(default_factory=dict)
    derived: Mapping[Callable[..., Any], Derived] = field(default_factory=dict)
    unlisted: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """One pass over a timeline's payloads: what it had to know is kept, what could not be read is a fault, and what
    was not read because it is too large is a remark.
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
        """Return what `make` says of a file's record, from memory if the file has not changed since.

        None, and a fault, if the file cannot be read; a remark, if it is too large.
        """
        try:
            return self._known(entry, make)
        except TooLargeError as error:
            self.remarks.append(f"{entry.name} is {error}: what it says is not read")
        except FileNotFoundError:
            self.faults.append(f"{entry.name} went away while it was read")
        except (UnreadableError, PermanentError) as error:
            self.faults.append(f"{entry.name} cannot be read: {error}")
        except MALFORMED as error:
            self.faults.append(f"{entry.name} is not what Hudi writes: {type(error).__name__} {error}")
        return None

    def fact_if_whole(self, entry: FileEntry, make: Decoder[_T]) -> _T | None:
        """Return the same of a file that may be half-written or gone, without a fault if it is."""
        try:
            return self._known(entry, make)
        except (FileNotFoundError, UnreadableError, PermanentError, *MALFORMED):
            return None

    def forget(self, entry: FileEntry, make: Decoder[Any]) -> None:
        """Do not hand a fact on: the next reading makes it anew."""
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
        """Return a fact of a file, or why a large one has none: it is not read again for that."""
        location = f"{self.folder}/{entry.name}"
        if entry.size <= LARGE:
            return make(decode(self.storage.read(location)))
        try:
            if isinstance(make, TakesPieces):
                fact: _T = make.of(read_pieces(self.storage, location, size=entry.size))
                return fact
            if entry.size > WHOLE:
                raise TooLargeError(f"larger than {format_size(WHOLE)}")
            return make(decode(self.storage.read(location)))
        except UnreadableError as error:
            return error
        except MALFORMED as error:
            return UnreadableError(f"not what Hudi writes: {type(error).__name__} {error}")
