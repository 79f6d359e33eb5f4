"""The newest snapshot of a table, and the token that it makes.

Source: `org.apache.paimon.utils.HintFileUtils` and `SnapshotManager` of Paimon 1.3.1. `snapshot/LATEST` is written
after the commit, or not at all where the writer died. It is a hint: it may be missing, or name a snapshot that is not
the newest, or one that a rollback has deleted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lakewarden.planners.decoding.json_stream import counted
from lakewarden.planners.formats.paimon.metadata.schemas import Schema
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import RunId
from lakewarden.planners.model.view import TableIdentity
from lakewarden.planners.ports import Storage
from lakewarden.planners.storage.content import FileTooLargeError, listed

SNAPSHOT = re.compile(r"snapshot-([0-9]{1,10})")
SCHEMA = re.compile(r"schema-([0-9]{1,10})")

HINT = "LATEST"
_HINT_BYTES = 64
_MOST_AHEAD = 32
"""So many commits beyond a hint are asked for one by one. Beyond that the folder is listed."""

_MOST_REMEMBERED = 100_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Head:
    """The newest snapshot, and what the storage calls this version of its file. After a rollback the next commits have
    numbers that were there before: only the version tells them apart.
    """

    id: int
    version: str

    @property
    def token(self) -> str:
        """Return the token of a table with this head."""
        return f"{self.id}.{self.version}"


class Heads:
    """Finds the newest snapshot: two requests for a table that has not changed, one for the snapshot that was the
    newest and one for the next. For any thread.
    """

    def __init__(self) -> None:
        self._newest: dict[str, int] = {}

    def of(self, location: str, storage: Storage) -> Head | None:
        """Return the head of the table; None for a table without a snapshot. Raises PermanentError for no table."""
        folder = f"{location}/snapshot"
        head = self._from(folder, self._newest.get(location), storage)
        if head is None:
            head = self._from(folder, hinted(folder, storage), storage)
        if head is None:
            head = self._from(folder, _highest(folder, storage), storage)
        if head is None:
            self._newest.pop(location, None)
            require_table(location, storage)
            return None
        self.learn(location, head.id)
        return head

    def learn(self, location: str, newest: int) -> None:
        """Remember a snapshot that was found to be the newest."""
        if len(self._newest) >= _MOST_REMEMBERED:
            self._newest.clear()
        self._newest[location] = newest

    def _from(self, folder: str, begin: int | None, storage: Storage) -> Head | None:
        """Return the last of the snapshots that follow `begin` without a gap; None if it is not there, or if they are
        too many to be asked for one by one.
        """
        version = None if begin is None else _version(folder, begin, storage)
        if begin is None or version is None:
            return None
        for newest in range(begin, begin + _MOST_AHEAD):
            after = _version(folder, newest + 1, storage)
            if after is None:
                return Head(id=newest, version=version)
            version = after
        highest = _highest(folder, storage)
        version = None if highest is None else _version(folder, highest, storage)
        return None if highest is None or version is None else Head(id=highest, version=version)


def require_table(location: str, storage: Storage) -> None:
    """Raise PermanentError where no Paimon table is: every one has a schema."""
    if not any(SCHEMA.fullmatch(entry.name) for entry in listed(f"{location}/schema", storage)):
        raise PermanentError(
            f"there is no Paimon table at {location}: it has neither a snapshot nor a schema. A table of a warehouse "
            "lies in <warehouse>/<database>.db/<table>"
        )


def hinted(folder: str, storage: Storage) -> int | None:
    """Return the number in the hint of the newest snapshot, in a folder of snapshots; None if there is none."""
    try:
        text = storage.read(f"{folder}/{HINT}", limit=_HINT_BYTES).decode("ascii", "replace").strip()
    except (FileNotFoundError, FileTooLargeError):
        return None
    return counted(text)


def _highest(folder: str, storage: Storage) -> int | None:
    matches = (SNAPSHOT.fullmatch(entry.name) for entry in listed(folder, storage))
    return max((int(match[1]) for match in matches if match), default=None)


def _version(folder: str, number: int, storage: Storage) -> str | None:
    try:
        return storage.version(f"{folder}/snapshot-{number}")
    except FileNotFoundError:
        return None


# By what a Paimon table is the same table tomorrow, and another one after it was dropped and made again.

UNKNOWN = "unknown"


def table_identity(location: str, first: Schema) -> TableIdentity:
    """Return where the table is, and when its first schema was made, in milliseconds. Schemas are never deleted. The
    first releases did not write the time: all tables of theirs that ever were at this location count as one.
    """
    at = first.at
    return TableIdentity(location=location, created=UNKNOWN if at is None else str(round(at.timestamp() * 1000)))


# How the commits of Lakewarden are told from those of others: the commit user has the name of the run.

_OURS = "lakewarden-"
_OF_MANIFESTS = ".manifests"
"""Paimon knows one kind of commit for compactions of files and of manifests. The end of the name tells them apart."""


def commit_user(run: RunId, *, of_manifests: bool = False) -> str:
    """Return the commit user of a run. No other run has it. `of_manifests`: the run merges manifests alone."""
    return f"{_OURS}{run}{_OF_MANIFESTS if of_manifests else ''}"


def run_of(user: str) -> RunId | None:
    """Return the run with this commit user. None for the commit user of another program."""
    run = user.removeprefix(_OURS)
    return RunId(run.removesuffix(_OF_MANIFESTS)) if run and run != user else None


def is_of_manifests(user: str) -> bool:
    """Whether a commit of Lakewarden with this commit user merged manifests, and no files."""
    return user.startswith(_OURS) and user.endswith(_OF_MANIFESTS)
