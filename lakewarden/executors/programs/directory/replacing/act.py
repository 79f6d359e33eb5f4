"""The journal of a replacement in an object store: which act is under way in a directory, and how far it is.

A directory has one act at a time. Its state is one small object, which changes on the condition that nothing else has
changed it. So of two daemons one takes each step, and the other one learns of it. What the act is about is written
once, before it begins, under a name of its own.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lakewarden.executors.programs.directory.partition_list import FileName, PartitionPath
from lakewarden.executors.programs.directory.rewriting.by_lines import NotRewrittenError
from lakewarden.executors.programs.directory.rewriting.partition import chosen, common_end, rewritten_as
from lakewarden.planners.formats.directory.compacting import ActProgress, ActState, act_in, act_of, act_place
from lakewarden.planners.formats.directory.listing.folders import OURS, REWRITTEN, EntryKind, is_hidden
from lakewarden.planners.formats.directory.options import CompactionOptions
from lakewarden.planners.model.errors import PermanentError, TemporaryError, YieldError
from lakewarden.planners.ports import MOST_FILES, FileEntry, Storage, Versioned
from lakewarden.planners.settings import format_size, shown
from lakewarden.planners.storage.conditions import ObjectConditions
from lakewarden.planners.storage.content import StoreRefusedError, listed
from lakewarden.planners.storage.objects import ObjectStorage

# Whole files of an object store: fetched, sent, copied within the store, and deleted. Each act may be repeated.

LARGEST_COPY = 2**30
"""So many bytes are copied within the store in the time of one request."""

_AT_ONCE = 8 * 2**20
_A_SECOND = timedelta(seconds=1)


class ObjectFiles:
    """The files below the locations of one object store. If one is missing, FileNotFoundError is raised. Any other
    failure raises TemporaryError.
    """

    def __init__(self, storage: ObjectStorage) -> None:
        self._storage = storage

    def files_in(self, location: str) -> Mapping[str, FileEntry]:
        """Return the files of a folder by their names, as they are now. A folder that is missing has none."""
        entries = listed(location, self._storage, most=MOST_FILES)
        return {entry.name: entry for entry in entries if not entry.is_folder}

    def below(self, location: str) -> Mapping[str, FileEntry]:
        """Return the files of a folder and of all folders in it, by their paths below it."""
        files: dict[str, FileEntry] = {}
        try:
            self._storage.each_below(location, files.__setitem__)
        except FileNotFoundError:
            return {}
        return files

    def fetch(self, location: str, target: Path, *, version: str) -> None:
        """Write one version of a file to a place on this machine. Raises FileNotFoundError if it has another now."""

        def fetched(client: Any, path: str) -> None:
            got = client.get(path)
            if str(got.meta["e_tag"] or "") != version:
                raise FileNotFoundError(location)
            with target.open("xb") as file:
                for part in got.stream(min_chunk_size=_AT_ONCE):
                    file.write(part)
            if target.stat().st_size != got.meta["size"]:
                raise TemporaryError(f"{location} was not read to its end")

        target.unlink(missing_ok=True)
        self._storage.ask(location, fetched)

    def send(self, source: Path, location: str) -> None:
        """Write a file of this machine into the store, and read it again. Raises TemporaryError if it differs."""
        self._storage.ask(location, lambda client, path: client.put(path, source))

        def differs(client: Any, path: str) -> bool:
            with source.open("rb") as file:
                for part in client.get(path).stream(min_chunk_size=_AT_ONCE):
                    if file.read(len(part)) != bytes(part):
                        return True
                return file.read(1) != b""

        if self._storage.ask(location, differs):
            raise TemporaryError(f"{location} does not hold what was written")

    def put(self, location: str, content: bytes) -> None:
        """Write a small file."""
        self._storage.ask(location, lambda client, path: client.put(path, content))

    def copy(self, source: str, target: str) -> None:
        """Copy a file within its bucket. What is at the target is replaced."""
        host, _, goal = target.partition("://")[2].partition("/")
        if host != source.partition("://")[2].partition("/")[0]:
            raise ValueError(f"{source} and {target} are in two buckets")
        self._storage.ask(source, lambda client, path: client.copy(path, goal))

    def delete_seen(self, location: str, seen: FileEntry) -> bool:
        """Delete a file if it is the one that a listing has shown. Return False if it is gone, or is another one."""
        try:
            head = self._storage.ask(location, lambda client, path: client.head(path))
        except FileNotFoundError:
            return False
        same_time = abs(head["last_modified"] - seen.modified) < _A_SECOND  # only a listing tells milliseconds
        if str(head["e_tag"] or "") != seen.version or head["size"] != seen.size or not same_time:
            return False
        self.delete(location)
        return True

    def delete(self, location: str) -> None:
        """Delete a file. One that is missing is deleted."""
        try:
            self._storage.ask(location, lambda client, path: client.delete(path))
        except FileNotFoundError:
            return


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
        if (act_record := self.record_left(act)) is None:
            place = f"{self.home(act)}/{RECORD}"
            raise PermanentError(f"{place} is missing: the act of {act_place(self._table)} cannot be ended")
        return act_record

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
        for path, file in self._files.below(f"{self._table}/{OURS}").items():
            act, sign, _ = path.partition("/")
            if sign:
                newest[act] = max(newest.get(act, file.modified), file.modified)
        return (act for act, at in newest.items() if at < before)


def partitions_in_act(table: str, storage: Storage) -> Collection[str]:
    """Return the partitions of the act that is under way, by their paths below the table. A disk has none: its folders
    are exchanged in one act of the kernel.
    """
    if not isinstance(storage, ObjectStorage) or (state := act_of(table, storage)) is None:
        return ()
    if state.progress is ActProgress.CLEARING:
        return ()
    return {replacement.partition for replacement in Acts(table, storage).record(state.act).replacements}


def _overtaken(table: str) -> YieldError:
    return YieldError(f"another run works in {table}")


# One partition of an object store, from its small files to new ones in a folder that readers overlook.


@dataclass(frozen=True, kw_only=True, slots=True)
class Staging:
    """What all partitions of one act have in common: the session, the store, the folder of the act and its name, the
    options, what a name stands for, the name of the marker, and whether readers are led by a metastore.
    """

    session: Any
    files: ObjectFiles
    home: str
    sign: str
    options: CompactionOptions
    kinds: Callable[[str], EntryKind]
    marker: str
    by_metastore: bool


def staged(staging: Staging, table: str, partition: str, folder: str) -> Replacement:
    """Rewrite the small files of a partition on this machine, compare both sides, and put the new ones into a folder of
    the act. Each name there has the sign of the act, but for the marker: any other file there is of a writer. Raises
    NotRewrittenError if the partition stays as it is.
    """
    place = f"{table}/{partition}"
    files = staging.files.files_in(place)
    if any(not entry.version for entry in files.values()):
        raise PermanentError(f"the store of {place} gives its files no versions")
    small = chosen(files, staging.kinds, staging.options)
    _require_deletion(staging, place)
    vouches = _vouches(files, staging.kinds, staging.marker)
    stay = files.keys() - set(small)
    led_to = sorted(name for name in stay - {staging.marker} if staging.by_metastore and not is_hidden(name))
    _refuse_large({name: files[name].size for name in led_to})
    target = f"{staging.home}/{folder}"
    with tempfile.TemporaryDirectory(prefix="lakewarden-") as scratch:
        made = _rewritten(staging, place, {name: files[name] for name in small}, Path(scratch))
        new = {file.name: file.stat().st_size for file in made}
        _refuse_large(new)
        if taken := new.keys() & files.keys():
            raise PermanentError(f"{place} already holds a file {min(taken)}")
        for file in made:
            staging.files.send(file, f"{target}/{file.name}")
    for name in led_to:
        staging.files.copy(f"{place}/{name}", f"{target}/stay-lakewarden-{staging.sign}-{name}")
    if vouches:
        staging.files.copy(f"{place}/{staging.marker}", f"{target}/{staging.marker}")
    return Replacement(
        partition=partition,
        folder=folder,
        old={name: _stored(files[name]) for name in small},
        new=new,
        stay={name: _stored(files[name]) for name in sorted(stay)},
        marker=staging.marker if vouches else None,
    )


def _require_deletion(staging: Staging, place: str) -> None:
    """Raise NotRewrittenError if the store lets us delete no file there: then readers would find rows twice. The file
    that is deleted is none. A bucket with versions keeps a mark of it.
    """
    try:
        staging.files.delete(f"{place}/{REWRITTEN}{staging.sign}-none")
    except StoreRefusedError as refused:
        raise NotRewrittenError(f"its files could not be deleted: {refused}") from refused


def _rewritten(staging: Staging, place: str, small: Mapping[str, FileEntry], scratch: Path) -> list[Path]:
    end = common_end(list(small))
    (scratch / "in").mkdir()
    files = []
    for number, (name, entry) in enumerate(small.items()):
        files.append(scratch / "in" / f"f-{number:07d}{end}")
        staging.files.fetch(f"{place}/{name}", files[-1], version=entry.version)
    return rewritten_as(staging.session, files, scratch / "out", staging.options, sign=staging.sign, end=end)


def _vouches(files: Mapping[str, FileEntry], kinds: Callable[[str], EntryKind], marker: str) -> bool:
    """Whether there is a marker, and no data is newer. S3 counts whole seconds, and Flink writes its marker in the
    second of the last file. Nothing has changed since for longer than any job is restored.
    """
    data = [entry.modified for name, entry in files.items() if kinds(name) is EntryKind.DATA]
    return marker in files and bool(data) and max(data) <= files[marker].modified


def _refuse_large(sizes: Mapping[str, int]) -> None:
    for name, size in sizes.items():
        if size > LARGEST_COPY:
            raise NotRewrittenError(
                f"{shown(name)} has more than {format_size(LARGEST_COPY)}, which are not copied in one request"
            )


def _stored(entry: FileEntry) -> StoredFile:
    return StoredFile(size=entry.size, version=entry.version)
