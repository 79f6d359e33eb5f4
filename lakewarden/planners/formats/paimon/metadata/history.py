"""The snapshots that a table has, as its folder lists them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count as counting

from lakewarden.planners.formats.paimon.metadata.files import VanishedError, listed
from lakewarden.planners.formats.paimon.metadata.heads import SNAPSHOT, hinted
from lakewarden.planners.formats.paimon.metadata.kept import Kept
from lakewarden.planners.formats.paimon.metadata.snapshots import Snapshot, parse_snapshot
from lakewarden.planners.model.errors import LakewardenError, TemporaryError
from lakewarden.planners.ports import FileEntry, Storage

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
    found = ((SNAPSHOT.fullmatch(entry.name), entry) for entry in listed(folder, storage))
    entries = {int(name[1]): entry for name, entry in found if name}
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
    if not any(one < number for one in entries):
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

    for entry, found in kept.parsed(folder, entries.values(), parsed):
        number = numbers[entry.name]
        if not isinstance(found, LakewardenError):
            snapshots[number] = found
        elif number == newest:
            raise found
        elif isinstance(found, VanishedError):  # it was expired meanwhile, and with it all that are older
            gone = max(gone, number)
        else:
            faults.append(str(found))
    return History(
        snapshots=tuple(snapshots[number] for number in sorted(snapshots) if number > gone),
        oldest=max(oldest, gone + 1),
        remains=remains,
        faults=tuple(faults),
    )
