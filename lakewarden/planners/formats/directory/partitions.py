"""How far a service is with each partition of a directory, and the words for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Generic, TypeVar

from lakewarden.planners.formats.directory.listing.folders import Folder
from lakewarden.planners.formats.directory.listing.walk import above
from lakewarden.planners.model.printable import printable
from lakewarden.planners.model.view import Backlog

MOST_SHOWN = 5
"""How many partitions are named in notes and warnings."""

_LONGEST_PATH = 200

_State = TypeVar("_State", bound=Enum)


@dataclass(frozen=True, kw_only=True, slots=True)
class PartitionJudgement(Generic[_State]):
    """How far a service is with a partition, and why; `until` is when time alone may change that."""

    state: _State
    reason: str
    until: datetime | None = None


def backlog_of(
    count: int,
    since: datetime,
    *,
    files: int,
    size: int | None = None,
    small_files: int | None = None,
    unfinished: str | None = None,
) -> Backlog:
    """Return the work: each of `count` partitions or parts counts as a commit. A format that counts what is left has no
    need to remember.
    """
    return Backlog(
        commits=count,
        commits_since_request=count,
        since=since,
        since_request=since,
        files=files,
        bytes=size,
        small_files=small_files,
        unfinished=unfinished,
        exact=True,
    )


def above_in(path: str, folders: Mapping[str, Folder]) -> Iterator[Folder]:
    """Yield the folders above one, as far as they are known."""
    return (folders[folder] for folder in above(path) if folder in folders)


def shown_path(path: str) -> str:
    """Return a path as a line may show it."""
    return printable(path, most=_LONGEST_PATH) if path else "the folder itself"
