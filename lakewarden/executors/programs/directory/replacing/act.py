"""The journal of a replacement in an object store: which act is under way in a directory, and how far it is.

A directory has one act at a time. Its state is one small object, which changes on the condition that nothing else has
changed it. So of two daemons one takes each step, and the other one learns of it. What the act is about is written
once, before it begins, under a name of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lakewarden.executors.programs.directory.replacing.object_files import ObjectFiles
from lakewarden.executors.programs.directory.written_paths import FileName, PartitionPath
from lakewarden.planners.formats.directory.compacting.acts import ActProgress, ActState, act_in, act_of, act_place
from lakewarden.planners.formats.directory.listing.names import OURS
from lakewarden.planners.model.errors import PermanentError, YieldError
from lakewarden.planners.ports import Storage, Versioned
from lakewarden.planners.storage.object_conditions import ObjectConditions
from lakewarden.planners.storage.objects import ObjectStorage

RECORD = "record.json"
_LARGEST_RECORD = 256 * 2**20


class StoredFile(BaseModel):
    """One object of a folder. It is the same one if size and version are the same."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    size: int
    version: str


class Replacement(BaseModel):
    """One partition, by its path below the table: the objects that are rewritten, the new ones by their names and
    sizes, and those that stay, a marker among them. `folder` is the one below that of the act with the new ones.
    `marker` vouches for the new ones, too; None if there is none that does.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    partition: PartitionPath
    folder: str = Field(pattern=r"^[0-9]+$")
    old: Mapping[FileName, StoredFile]
    new: Mapping[FileName, int]
    stay: Mapping[FileName, StoredFile]
    marker: FileName | None = None


class ActRecord(BaseModel):
    """All partitions of one act, in the order of their folders. `by_metastore`: readers are led by a metastore."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run: str
    by_metastore: bool
    replacements: tuple[Replacement, ...]


class Acts:
    """The one act of a directory in an object store."""

    def __init__(self, table: str, storage: ObjectStorage) -> None:
        self._table = table
        self._storage: Storage = storage
        self._files = ObjectFiles(storage)
        self._conditions = ObjectConditions(storage)
        self._seen: Versioned | None = None

    def home(self, act: str) -> str:
        """Return the folder of an act."""
        return f"{self._table}/{OURS}/{act}"

    def current(self) -> ActState | None:
        """Return the act that is under way; None if there is none. Raises PermanentError if its state is damaged."""
        self._seen = self._conditions.versioned(act_place(self._table))
        return None if self._seen is None else act_in(self._seen.content, self._table)

    def require_unchanged(self) -> None:
        """Raise YieldError if another process has taken the act further since it was seen."""
        now = self._conditions.versioned(act_place(self._table))
        if now is None or self._seen is None or now.version != self._seen.version:
            raise _overtaken(self._table)

    def begin(self, state: ActState) -> None:
        """Begin an act. Raises YieldError if another one is under way."""
        made = self._conditions.create(act_place(self._table), state.written())
        if made is None:
            raise _overtaken(self._table)
        self._seen = made

    def move(self, state: ActState) -> None:
        """Take the act that was seen to its next state. Raises YieldError if another process was faster."""
        if self._seen is None:
            raise _overtaken(self._table)
        made = self._conditions.replace(act_place(self._table), state.written(), version=self._seen.version)
        if made is None:
            raise _overtaken(self._table)
        self._seen = made

    def end(self) -> None:
        """End the act that was seen. Raises YieldError if another process was faster."""
        if self._seen is None or not self._conditions.delete(act_place(self._table), version=self._seen.version):
            raise _overtaken(self._table)
        self._seen = None

    def write(self, act: str, record: ActRecord) -> None:
        """Write what an act is about, before it begins."""
        content = record.model_dump_json().encode()
        place = f"{self.home(act)}/{RECORD}"
        self._files.put(place, content)

    def record(self, act: str) -> ActRecord:
        """Return what an act is about. Raises PermanentError if that cannot be read: then nothing is touched."""
        if (found := self.record_left(act)) is None:
            place = f"{self.home(act)}/{RECORD}"
            raise PermanentError(f"{place} is missing: the act of {act_place(self._table)} cannot be ended")
        return found

    def record_left(self, act: str) -> ActRecord | None:
        """Return what an act is about; None if it has no record. Raises PermanentError if that cannot be read."""
        place = f"{self.home(act)}/{RECORD}"
        try:
            return ActRecord.model_validate_json(self._storage.read(place, limit=_LARGEST_RECORD))
        except FileNotFoundError:
            return None
        except ValidationError as damaged:
            raise PermanentError(
                f"{place} cannot be read: look which files of its partitions hold all rows"
            ) from damaged

    def clear(self, act: str, is_ours: Callable[[str], bool]) -> Sequence[str]:
        """Remove the files of an act, by their paths below its folder, its record last. Return those that stay."""
        home = self.home(act)
        paths = sorted(self._files.below(home), key=lambda path: (path == RECORD, path))
        for path in filter(is_ours, paths):
            self._files.delete(f"{home}/{path}")
        return [path for path in paths if not is_ours(path)]

    def left(self, *, before: datetime) -> Iterator[str]:
        """Yield the acts with a folder to which nothing was written since a moment. To be called while none is under
        way.
        """
        newest: dict[str, datetime] = {}
        for path, one in self._files.below(f"{self._table}/{OURS}").items():
            act, sign, _ = path.partition("/")
            if sign:
                newest[act] = max(newest.get(act, one.modified), one.modified)
        return (act for act, at in newest.items() if at < before)


def partitions_in_act(table: str, storage: Storage) -> Collection[str]:
    """Return the partitions of the act that is under way, by their paths below the table. A disk has none: its folders
    are exchanged in one act of the kernel.
    """
    if not isinstance(storage, ObjectStorage) or (state := act_of(table, storage)) is None:
        return ()
    if state.progress is ActProgress.CLEARING:
        return ()
    return {one.partition for one in Acts(table, storage).record(state.act).replacements}


def _overtaken(table: str) -> YieldError:
    return YieldError(f"another run works in {table}")
