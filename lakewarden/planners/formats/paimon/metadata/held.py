"""Reading tags, branches, consumers and changelogs: a bounded number of each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from lakewarden.planners.formats.paimon.metadata.files import VanishedError, listed
from lakewarden.planners.formats.paimon.metadata.heads import SNAPSHOT
from lakewarden.planners.formats.paimon.metadata.kept import Kept
from lakewarden.planners.formats.paimon.metadata.references import (
    BRANCH,
    CHANGELOG,
    CONSUMER,
    TAG,
    Branch,
    Consumer,
    References,
    Tag,
    is_of_success_files,
    parse_consumer,
)
from lakewarden.planners.formats.paimon.metadata.snapshots import parse_snapshot
from lakewarden.planners.model.errors import LakewardenError
from lakewarden.planners.ports import FileEntry, Storage

MOST = 1000
"""So many tags and consumers are read, and so many branches."""

_T = TypeVar("_T")


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
            changelogs=tuple(sorted(int(one[1]) for one in changelogs if one)),
            left=self._left,
        )

    def _entries(self, folder: str, named: re.Pattern[str]) -> Sequence[FileEntry]:
        found = listed(f"{self._location}/{folder}", self._storage)
        entries = [one for one in found if named.fullmatch(one.name) and not is_of_success_files(one)]
        entries.sort(key=lambda one: (one.modified, one.name))
        self._left += max(0, len(entries) - MOST)
        return sorted(entries[-MOST:], key=lambda one: one.name)

    def _read(self, folder: str, named: re.Pattern[str], parse: Callable[[bytes, str], _T]) -> Iterator[_T]:
        at = f"{self._location}/{folder}"
        found = list(self._kept.parsed(at, self._entries(folder, named), parse))
        for _, one in sorted(found, key=lambda pair: pair[0].name):
            if not isinstance(one, LakewardenError):
                yield one
            elif not isinstance(one, VanishedError):  # else it was deleted meanwhile
                self.faults.append(str(one))

    def _branch(self, entry: FileEntry) -> Branch:
        folder = f"{self._location}/branch/{entry.name}/snapshot"
        numbers = (SNAPSHOT.fullmatch(one.name) for one in listed(folder, self._storage))
        return Branch(
            name=entry.name.removeprefix("branch-"), snapshot=max((int(one[1]) for one in numbers if one), default=None)
        )


def _tag(content: bytes, file: str) -> Tag:
    name = file.rpartition("/")[2].removeprefix("tag-")
    return Tag(name=name, snapshot=parse_snapshot(content, file=file, what="tag").id)


def _consumer(content: bytes, file: str) -> Consumer:
    return parse_consumer(content, file=file, name=file.rpartition("/")[2].removeprefix("consumer-"))
