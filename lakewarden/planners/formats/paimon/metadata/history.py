"""The snapshots that a table has, as its folder lists them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count as counting
from typing import Any, TypeVar

from lakewarden.planners.decoding.json_stream import count
from lakewarden.planners.formats.paimon.metadata.files import (
    LARGEST_JSON,
    MALFORMED,
    VanishedError,
    contents,
    corrupt,
    json_object,
)
from lakewarden.planners.formats.paimon.metadata.heads import SNAPSHOT, hinted
from lakewarden.planners.formats.paimon.metadata.snapshots import Snapshot, parse_snapshot
from lakewarden.planners.model.errors import LakewardenError, TemporaryError
from lakewarden.planners.ports import FileEntry, Storage
from lakewarden.planners.settings import shown
from lakewarden.planners.storage.content import listed, too_large

# The small files of a table, each decoded once: a listing tells which of them are still the same.

_T = TypeVar("_T")

Remembered = Mapping[str, tuple[str, Any]]
"""What files said, by their locations, each with what the listing told of the file."""


class Kept:
    """One pass over folders of small files: what an earlier pass has decoded is not read again."""

    def __init__(self, storage: Storage, remembered: Remembered) -> None:
        self._storage, self._remembered = storage, remembered
        self.now: dict[str, tuple[str, Any]] = {}

    def parsed(
        self, folder: str, entries: Iterable[FileEntry], parse: Callable[[bytes, str], _T]
    ) -> Iterator[tuple[FileEntry, _T | LakewardenError]]:
        """Yield the entries of a folder, each with what `parse` makes of its content and its location, or with the
        error that came of it. Those that were read before come first.
        """
        missing: dict[str, FileEntry] = {}
        for entry in entries:
            file = f"{folder}/{entry.name}"
            memory = self._remembered.get(file)
            if entry.size > LARGEST_JSON:
                yield entry, too_large(file, LARGEST_JSON)
            elif memory is not None and memory[0] == _stamp(entry):
                self.now[file] = memory
                yield entry, memory[1]
            else:
                missing[file] = entry
        for file, content in contents(missing, self._storage):
            entry = missing[file]
            content_or_error = content if isinstance(content, LakewardenError) else _parsed(parse, content, file)
            if not isinstance(content_or_error, LakewardenError):
                self.now[file] = (_stamp(entry), content_or_error)
            yield entry, content_or_error


def _parsed(parse: Callable[[bytes, str], _T], content: bytes, file: str) -> _T | LakewardenError:
    try:
        return parse(content, file)
    except LakewardenError as error:
        return error


def _stamp(entry: FileEntry) -> str:
    return f"{entry.size}.{entry.modified.timestamp()}.{entry.version}"


MOST = 1000
"""So many snapshots are read, the newest. A table that keeps a commit of every second for an hour has 3,600."""


@dataclass(frozen=True, kw_only=True, slots=True)
class History:
    """The newest snapshots, the oldest first, of all from `oldest` to the newest one. `remains` are the numbers of
    older snapshots below a gap: an expiry that was cut off left their files. `faults` tell of those that cannot be
    read.
    """

    snapshots: tuple[Snapshot, ...] = ()
    oldest: int = 0
    remains: tuple[int, ...] = ()
    faults: tuple[str, ...] = field(default=())

    @property
    def newest(self) -> Snapshot | None:
        """Return the snapshot that readers see; None for a table without one."""
        return self.snapshots[-1] if self.snapshots else None

    @property
    def count(self) -> int:
        """Return how many snapshots there are, whether they were read or not."""
        return 0 if self.newest is None else self.newest.id - self.oldest + 1

    @property
    def is_whole(self) -> bool:
        """Whether all of them were read."""
        return len(self.snapshots) == self.count


def read_history(location: str, storage: Storage, kept: Kept, *, head: int | None, most: int | None = None) -> History:
    """Return the newest snapshots of a table, so many at `most` (MOST). `head` is the newest that is known; None for a
    table without one.

    Raises what reading the newest one raises. TemporaryError where the listing leaves out a snapshot that is there.
    """
    folder = f"{location}/snapshot"
    matches = ((SNAPSHOT.fullmatch(entry.name), entry) for entry in listed(folder, storage))
    entries = {int(name[1]): entry for name, entry in matches if name}
    if head is None and not entries:
        return History()
    newest = max(entries, default=0)
    if head is not None and newest < head:
        raise TemporaryError(f"the listing of {folder} leaves out snapshot-{head}, which is there")
    oldest = next(number for number in counting(newest, -1) if number - 1 not in entries)
    _require_gap(folder, oldest - 1, entries, storage)
    read = {number: entries[number] for number in range(max(oldest, newest - (most or MOST) + 1), newest + 1)}
    remains = tuple(sorted(number for number in entries if number < oldest))
    return _read(folder, read, kept, oldest=oldest, remains=remains)


def misleading_hint(location: str, storage: Storage, history: History) -> int | None:
    """Return the hint of the newest snapshot if Paimon's clients believe it, and it names another one; else None. They
    believe it if there is no snapshot of the next number.
    """
    newest, folder = history.newest, f"{location}/snapshot"
    hint = None if newest is None else hinted(folder, storage)
    if newest is None or not hint or history.oldest <= hint + 1 <= newest.id + 1 or hint + 1 in history.remains:
        return None
    if hint > newest.id:  # of a commit that came after the listing
        with contextlib.suppress(FileNotFoundError):
            storage.version(f"{folder}/snapshot-{hint}")
            return None
    return hint


def _require_gap(folder: str, number: int, entries: Mapping[int, FileEntry], storage: Storage) -> None:
    """Raise TemporaryError where the snapshot below the oldest is there, and the listing leaves it out."""
    if not any(entry < number for entry in entries):
        return
    try:
        storage.version(f"{folder}/snapshot-{number}")
    except FileNotFoundError:
        return
    raise TemporaryError(f"the listing of {folder} leaves out snapshot-{number}, which is there")


def _read(
    folder: str, entries: Mapping[int, FileEntry], kept: Kept, *, oldest: int, remains: tuple[int, ...]
) -> History:
    numbers = {entry.name: number for number, entry in entries.items()}
    newest = max(entries)
    snapshots: dict[int, Snapshot] = {}
    faults, gone = [], 0

    def parsed(content: bytes, file: str) -> Snapshot:
        return parse_snapshot(content, file=file, named=numbers[file.rpartition("/")[2]])

    for entry, snapshot_or_error in kept.parsed(folder, entries.values(), parsed):
        number = numbers[entry.name]
        if not isinstance(snapshot_or_error, LakewardenError):
            snapshots[number] = snapshot_or_error
        elif number == newest:
            raise snapshot_or_error
        elif isinstance(snapshot_or_error, VanishedError):  # it was expired meanwhile, and with it all that are older
            gone = max(gone, number)
        else:
            faults.append(str(snapshot_or_error))
    return History(
        snapshots=tuple(snapshots[number] for number in sorted(snapshots) if number > gone),
        oldest=max(oldest, gone + 1),
        remains=remains,
        faults=tuple(faults),
    )


# What holds snapshots, or keeps a position in them: tags, branches, consumers and changelogs of their own.
#
# Source: `org.apache.paimon.utils.TagManager`, `BranchManager` and `ChangelogManager`, `tag.SuccessFileTagCallback`,
# and `consumer.ConsumerManager` of Paimon 1.3.1. A tag is a snapshot in a file of its own, a branch is a folder like
# the table's, and a consumer is a file with the next snapshot that it reads.

TAG = re.compile(r"tag-(.{1,255})", re.DOTALL)
BRANCH = re.compile(r"branch-(.{1,255})", re.DOTALL)
CONSUMER = re.compile(r"consumer-(.{1,255})", re.DOTALL)
CHANGELOG = re.compile(r"changelog-([0-9]{1,10})")

_SUCCESS_FILES = "tag-success-file"
"""A folder beside the tags, with a file for each new tag (`tag.create-success-file`). No file of the table is in it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tag:
    """A tag, and the snapshot that it is."""

    name: str
    snapshot: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Branch:
    """A branch, and its newest snapshot; None where it has none of its own."""

    name: str
    snapshot: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Consumer:
    """A streaming reader, and the snapshot that it reads next."""

    name: str
    next: int


@dataclass(frozen=True, kw_only=True, slots=True)
class References:
    """All of them. `changelogs` are the numbers of the changelogs that outlive their snapshots, `left` says how many
    of each kind were too many to be read.
    """

    tags: tuple[Tag, ...] = ()
    branches: tuple[Branch, ...] = ()
    consumers: tuple[Consumer, ...] = ()
    changelogs: tuple[int, ...] = ()
    left: int = 0


def is_of_success_files(entry: FileEntry) -> bool:
    """Whether an entry of the folder of tags is that of their success files. A tag of this name is a file."""
    return entry.is_folder and entry.name == _SUCCESS_FILES


def parse_consumer(content: bytes, *, file: str, name: str) -> Consumer:
    """Return where a consumer stands. Raises CorruptMetadataError."""
    raw = json_object(content, file=file, what="consumer")
    try:
        return Consumer(name=name, next=count(raw["nextSnapshot"], "nextSnapshot"))
    except MALFORMED as wrong:
        raise corrupt(file, "consumer", wrong) from wrong


def what_names_it(file: str) -> str:
    """Return in words what the file of a snapshot, a tag or a changelog is, and what to do if a file that it names is
    gone for good.
    """
    _, is_of_a_branch, below = file.rpartition("/branch/")
    name, branch = file.rpartition("/")[2], below.partition("/")[0].removeprefix("branch-")
    if TAG.fullmatch(name):
        of = f" of the branch {shown(branch)}" if is_of_a_branch else ""
        return f"The tag {shown(name.removeprefix('tag-'))}{of} names it, and cannot be read without it: delete the tag"
    if is_of_a_branch:
        return (
            f"{name} of the branch {shown(branch)} names it: let that snapshot of the branch expire, or drop the branch"
        )
    return f"{name} names it. If an expiry was cut off, let it run again: clean, or Paimon's expire_snapshots"


# Reading tags, branches, consumers and changelogs: a bounded number of each.


class Holding:
    """One pass over what holds the snapshots of a table. What cannot be read is a fault."""

    def __init__(self, location: str, storage: Storage, kept: Kept) -> None:
        self._location, self._storage, self._kept = location, storage, kept
        self._left = 0
        self.faults: list[str] = []

    def references(self) -> References:
        """Return them, each kind by its name."""
        tags = tuple(self._read("tag", TAG, _tag))
        consumers = tuple(self._read("consumer", CONSUMER, _consumer))
        branches = tuple(map(self._branch, self._entries("branch", BRANCH)))
        changelogs = (CHANGELOG.fullmatch(entry.name) for entry in listed(f"{self._location}/changelog", self._storage))
        return References(
            tags=tags,
            branches=branches,
            consumers=consumers,
            changelogs=tuple(sorted(int(changelog[1]) for changelog in changelogs if changelog)),
            left=self._left,
        )

    def _entries(self, folder: str, named: re.Pattern[str]) -> Sequence[FileEntry]:
        listing = listed(f"{self._location}/{folder}", self._storage)
        entries = [entry for entry in listing if named.fullmatch(entry.name) and not is_of_success_files(entry)]
        entries.sort(key=lambda entry: (entry.modified, entry.name))
        self._left += max(0, len(entries) - MOST)
        return sorted(entries[-MOST:], key=lambda entry: entry.name)

    def _read(self, folder: str, named: re.Pattern[str], parse: Callable[[bytes, str], _T]) -> Iterator[_T]:
        at = f"{self._location}/{folder}"
        pairs = list(self._kept.parsed(at, self._entries(folder, named), parse))
        for _, record_or_error in sorted(pairs, key=lambda pair: pair[0].name):
            if not isinstance(record_or_error, LakewardenError):
                yield record_or_error
            elif not isinstance(record_or_error, VanishedError):  # else it was deleted meanwhile
                self.faults.append(str(record_or_error))

    def _branch(self, entry: FileEntry) -> Branch:
        folder = f"{self._location}/branch/{entry.name}/snapshot"
        numbers = (SNAPSHOT.fullmatch(entry.name) for entry in listed(folder, self._storage))
        return Branch(
            name=entry.name.removeprefix("branch-"),
            snapshot=max((int(number[1]) for number in numbers if number), default=None),
        )


def _tag(content: bytes, file: str) -> Tag:
    name = file.rpartition("/")[2].removeprefix("tag-")
    return Tag(name=name, snapshot=parse_snapshot(content, file=file, what="tag").id)


def _consumer(content: bytes, file: str) -> Consumer:
    return parse_consumer(content, file=file, name=file.rpartition("/")[2].removeprefix("consumer-"))
