"""What has files of a table besides its snapshots: tags and branches. And who reads snapshots. All of it is read whole.

Source: `org.apache.paimon.utils.BranchManager` of Paimon 1.3.1. A branch is a folder with snapshots, tags and schemas
of its own. Its data files, manifests and index files lie in the folders of the table. Paimon's own expiry of the table
does not look at branches.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from lakewarden.planners.formats.paimon.metadata.files import (
    LARGEST_JSON,
    VanishedError,
    content_of,
    once_whole,
)
from lakewarden.planners.formats.paimon.metadata.heads import SNAPSHOT
from lakewarden.planners.formats.paimon.metadata.history import (
    BRANCH,
    CHANGELOG,
    CONSUMER,
    TAG,
    Consumer,
    is_of_success_files,
    parse_consumer,
)
from lakewarden.planners.formats.paimon.metadata.snapshots import Snapshot, parse_snapshot
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.ports import FileEntry, Storage
from lakewarden.planners.storage.content import listed

_HINTS = ("LATEST", "EARLIEST")


class RootKind(Enum):
    """What a root is: a snapshot, a tag, or a changelog that has outlived its snapshot. REMAINS are snapshots below a
    gap, which an expiry has left.
    """

    SNAPSHOT = auto()
    TAG = auto()
    CHANGELOG = auto()
    REMAINS = auto()


class Root(NamedTuple):
    """A file that names other files of the table, what it is, and what the listing told of it."""

    file: str
    kind: RootKind
    stamp: str
    number: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Roots:
    """The snapshots of tags and branches, by their files, and a text that changes when one comes, goes or changes."""

    snapshots: dict[str, Snapshot]
    stamp: str


def read_roots(location: str, storage: Storage) -> Roots:
    """Return what tags and branches have. Raises PermanentError for a file that is not understood: nothing may be
    deleted beside it. Raises VanishedError for one that went meanwhile.
    """
    snapshots, stamps = dict[str, Snapshot](), list[str]()
    for root in _tags_and_branches(location, storage):
        snapshots[root.file] = read_root(root, storage, what="snapshot or tag")
        stamps.append(root.stamp)
    return Roots(snapshots=snapshots, stamp="\n".join(sorted(stamps)))


def read_root(root: Root, storage: Storage, *, what: str) -> Snapshot:
    """Return what a file says. Raises PermanentError if it is not understood, and VanishedError."""
    file, named = root.file, root.number

    def read() -> Snapshot:
        return parse_snapshot(content_of(file, storage, limit=LARGEST_JSON), file=file, named=named, what=what)

    return once_whole(read)


def stamp_of_roots(location: str, storage: Storage) -> str:
    """Return the stamp alone, by listing folders."""
    return "\n".join(sorted(root.stamp for root in _tags_and_branches(location, storage)))


def all_roots(location: str, storage: Storage) -> Iterator[Root]:
    """Yield everything that names files of the table: its snapshots, changelogs, tags and branches, in this order. A
    snapshot that is about to become one of the others is met as one of them.

    Raises PermanentError for a file that is not understood: it may need files of the table.
    """
    yield from _snapshots(f"{location}/snapshot", storage)
    yield from _roots_in(f"{location}/changelog", RootKind.CHANGELOG, CHANGELOG, storage)
    yield from _roots_in(f"{location}/tag", RootKind.TAG, TAG, storage)
    for folder in _branches(location, storage):
        yield from _roots_in(f"{folder}/snapshot", RootKind.SNAPSHOT, SNAPSHOT, storage)
        yield from _roots_in(f"{folder}/changelog", RootKind.CHANGELOG, CHANGELOG, storage)
        yield from _roots_in(f"{folder}/tag", RootKind.TAG, TAG, storage)


def _snapshots(folder: str, storage: Storage) -> Iterator[Root]:
    """Yield the snapshots of the table, the newest first, and then what lies below a gap."""
    roots = {root.number or 0: root for root in _roots_in(folder, RootKind.SNAPSHOT, SNAPSHOT, storage)}
    whole = True
    for number in sorted(roots, reverse=True):
        whole = whole and (number + 1 in roots or number == max(roots))
        yield roots[number] if whole else roots[number]._replace(kind=RootKind.REMAINS)


def _roots_in(folder: str, kind: RootKind, named: re.Pattern[str], storage: Storage) -> Iterator[Root]:
    for entry in _visible(folder, storage):
        if kind is not RootKind.TAG and entry.name in _HINTS:
            continue
        file, name = f"{folder}/{entry.name}", named.fullmatch(entry.name)
        if entry.is_folder or name is None:
            raise _strange(file)
        yield Root(file, kind, _stamp(file, entry), None if kind is RootKind.TAG else int(name[1]))


def read_consumers(location: str, storage: Storage) -> tuple[Consumer, ...]:
    """Return where all consumers stand. Raises PermanentError for a file that is not understood."""
    consumers, folder = list[Consumer](), f"{location}/consumer"
    for entry in _visible(folder, storage):
        named = CONSUMER.fullmatch(entry.name)
        if named is None:
            raise _strange(f"{folder}/{entry.name}")
        with contextlib.suppress(VanishedError):  # it was reset meanwhile, or has expired
            consumers.append(_read_consumer(f"{folder}/{entry.name}", storage, named[1]))
    return tuple(consumers)


def _read_consumer(file: str, storage: Storage, name: str) -> Consumer:
    return once_whole(lambda: parse_consumer(content_of(file, storage, limit=LARGEST_JSON), file=file, name=name))


def _stamp(file: str, entry: FileEntry) -> str:
    return f"{file} {entry.size} {entry.modified.timestamp()} {entry.version}"


def _tags_and_branches(location: str, storage: Storage) -> Iterator[Root]:
    yield from _roots_in(f"{location}/tag", RootKind.TAG, TAG, storage)
    for folder in _branches(location, storage):
        if any(True for _ in _visible(f"{folder}/changelog", storage)):
            raise PermanentError(f"{folder} has changelogs of its own, which Lakewarden does not read: drop the branch")
        yield from _roots_in(f"{folder}/snapshot", RootKind.SNAPSHOT, SNAPSHOT, storage)
        yield from _roots_in(f"{folder}/tag", RootKind.TAG, TAG, storage)


def _branches(location: str, storage: Storage) -> Iterator[str]:
    for branch in _visible(f"{location}/branch", storage):
        folder = f"{location}/branch/{branch.name}"
        if not BRANCH.fullmatch(branch.name) or not branch.is_folder:
            raise _strange(folder)
        yield folder


def _visible(folder: str, storage: Storage) -> Iterator[FileEntry]:
    """Yield the entries of a folder without those that Paimon is about to rename, and without success files of tags."""
    entries = listed(folder, storage)
    return (entry for entry in entries if not entry.name.startswith(".") and not is_of_success_files(entry))


def _strange(file: str) -> PermanentError:
    return PermanentError(f"{file} is not what Paimon puts there, and may need files of the table: move it away")
