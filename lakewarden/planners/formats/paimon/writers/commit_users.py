"""Who commits to a table.

A streaming job has one commit user for its life, and counts its commits. When it is restored it looks for its newest
commit, and commits again what it does not find (`FileStoreCommitImpl.filterCommitted` of Paimon 1.3.1).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lakewarden.planners.formats.paimon.metadata.snapshots import CommitKind, Snapshot

_WRITES = frozenset({CommitKind.APPEND, CommitKind.OVERWRITE})


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitUser:
    """A commit user and its newest snapshot. `compacts`: it writes rows and compacts."""

    name: str
    newest: Snapshot
    compacts: bool

    @property
    def is_streaming(self) -> bool:
        """Whether it is a streaming job's."""
        return self.newest.is_streaming

    @property
    def writes(self) -> bool:
        """Whether it writes rows. A job that only compacts does not."""
        return self.compacts or self.newest.kind in _WRITES


def commit_users(snapshots: Iterable[Snapshot]) -> tuple[CommitUser, ...]:
    """Return the users of snapshots, which come the oldest first: the one with the newest commit first. Pure."""
    by_user: dict[str, list[Snapshot]] = {}
    for one in snapshots:
        by_user.setdefault(one.user, []).append(one)
    found = [_user(name, of_it) for name, of_it in by_user.items()]
    return tuple(sorted(found, key=lambda one: one.newest.id, reverse=True))


def _user(name: str, snapshots: list[Snapshot]) -> CommitUser:
    kinds = {one.kind for one in snapshots}
    return CommitUser(
        name=name,
        newest=snapshots[-1],
        compacts=CommitKind.COMPACT in kinds and bool(kinds & _WRITES),
    )
