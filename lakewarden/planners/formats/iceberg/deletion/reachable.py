"""Which files the snapshots of a table need, and which files no snapshot would need any more.

It works as Iceberg's `ReachableFileCleanup` does. First it collects the files that may be deleted. Then it reads the
metadata of all snapshots that stay, and spares the files that they name. Memory holds only the files that may be
deleted. If a manifest of a snapshot that stays cannot be read, nothing is deleted, and the snapshot is named. If one of
a snapshot that expires is lost or damaged, the files that it alone named are left to orphans.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from itertools import accumulate
from typing import NamedTuple

from lakewarden.planners.formats.iceberg.deletion.lost import noted, refuse_lost
from lakewarden.planners.formats.iceberg.metadata.files import (
    VanishedError,
    contents_left,
    list_of,
    read_table,
)
from lakewarden.planners.formats.iceberg.metadata.manifests import Manifest, read_manifest_list, read_paths
from lakewarden.planners.formats.iceberg.metadata.metadata import FOR_EVER, MAIN, Snapshot, TableMetadata, after
from lakewarden.planners.formats.iceberg.metadata.parsing import Spelling, path_alone
from lakewarden.planners.formats.iceberg.options.table_options import IncrementalReader, ReaderKind
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.view import ReaderPosition
from lakewarden.planners.ports import Storage
from lakewarden.planners.settings import format_duration, shown


class FileKind(StrEnum):
    """The kind of a file, in the order of deletion. Files that others name are deleted before the files that
    name them.
    """

    CONTENT = "content"
    """Rows or deletes."""
    MANIFEST = "manifest"
    MANIFEST_LIST = "manifest-list"
    STATISTICS = "statistics"
    ORPHAN = "orphan"
    """A file that no metadata names."""


_IN_MANIFESTS = (FileKind.CONTENT, FileKind.ORPHAN)


class DeletableFile(NamedTuple):
    """A file to be deleted. Its path is spelled as the table's own FileIO knows it."""

    kind: FileKind
    path: str


class Sparing(ABC):
    """Files that may be deleted, unless the table needs them. Not for several threads."""

    def __init__(self) -> None:
        self._read: set[str] = set()
        self._read_lists: set[str] = set()

    @abstractmethod
    def spare(self, path: str) -> None:
        """Remove a file that the table needs."""

    @abstractmethod
    def _hopes_in_manifests(self) -> bool:
        """Whether there are files left that manifests may name."""

    def spare_reachable(self, metadata: TableMetadata, storage: Storage, *, without: Collection[int] = ()) -> None:
        """Remove all files that the table's snapshots need, except the snapshots `without`. Remove also the statistics
        and metadata files that the table names. Raises what reading them raises.

        Manifests and their lists never change. One that has spared its files before is not read again.
        """
        for path in (metadata.file, *metadata.metadata_log, *_statistics(metadata, without=without)):
            self.spare(path)
        kept = [snapshot for snapshot in metadata.snapshots if snapshot.id not in without]
        lost: dict[str, bool] = {}
        new = tuple(_manifests(kept, storage, lost, read=self._read, read_lists=self._read_lists))
        refuse_lost(lost, kept, metadata, storage)
        self.spare_needed(kept, new, metadata, storage)

    def spare_needed(
        self, snapshots: Sequence[Snapshot], manifests: Iterable[Manifest], metadata: TableMetadata, storage: Storage
    ) -> None:
        """Remove the manifest lists of `snapshots`, their `manifests`, and the files that these name. `manifests` are
        all of their manifests that have spared nothing yet. Raises what `refuse_lost` raises.
        """
        new = {manifest.path: manifest for manifest in manifests}
        for path in new:
            self.spare(path)
        if self._hopes_in_manifests():
            lost: dict[str, bool] = {}
            for path, content in contents_left(new, storage, lost):
                with noted(path, lost):
                    for named in read_paths(content, path):
                        self.spare(named)
            refuse_lost(lost, snapshots, metadata, storage)
            self._read |= new.keys()
        for snapshot in snapshots:
            if snapshot.manifest_list is not None:
                self.spare(snapshot.manifest_list)
                self._read_lists.add(snapshot.manifest_list)


class Suspects(Sparing):
    """Files that metadata names, each in memory. Those that metadata knows by the same path under another scheme or
    host are spared, too. `lost` are the manifests and lists that would have named more, and that are not there or
    damaged.
    """

    def __init__(self, files: Iterable[DeletableFile], spelling: Spelling, *, lost: Sequence[str] = ()) -> None:
        super().__init__()
        self.lost = lost
        self._spelling = spelling
        self._files = {spelling(file.path): file for file in files}
        self._of_path: dict[str, list[str]] = {}
        for spelled in self._files:
            self._of_path.setdefault(path_alone(spelled), []).append(spelled)
        self._named_by_manifests = {spelled for spelled, file in self._files.items() if file.kind in _IN_MANIFESTS}
        self._names = {spelled.rpartition("/")[2] for spelled in self._files}

    def __len__(self) -> int:
        return len(self._files)

    def __contains__(self, path: str) -> bool:
        return self._spelling(path) in self._files

    def files(self) -> tuple[DeletableFile, ...]:
        """Return the files that are left, in the order of deletion."""
        order = list(FileKind)
        return tuple(sorted(self._files.values(), key=lambda file: (order.index(file.kind), file.path)))

    def among(self, files: Iterable[DeletableFile]) -> Suspects:
        """Return those of `files` that are suspects here. A manifest that has spared its files here need not be read
        for them again.
        """
        some = Suspects([file for file in files if file.path in self], self._spelling, lost=self.lost)
        some._read |= self._read
        some._read_lists |= self._read_lists
        return some

    def spare(self, path: str) -> None:
        """Remove a file that the table needs."""
        # its name is the same in every spelling: most of millions of paths end here
        if path.rpartition("/")[2] not in self._names:
            return
        for suspected in self._of_path.pop(path_alone(self._spelling(path)), ()):
            del self._files[suspected]
            self._named_by_manifests.discard(suspected)

    def _hopes_in_manifests(self) -> bool:
        return bool(self._named_by_manifests)


def only_reachable_from(expired: Collection[int], metadata: TableMetadata, storage: Storage) -> Suspects:
    """Return the files that the snapshots `expired` need and no other snapshot of the table needs. What they have
    `lost` names no file. Raises what reading the metadata of any of its other snapshots raises.
    """
    lost: dict[str, bool] = {}
    kept = [snapshot for snapshot in metadata.snapshots if snapshot.id not in expired]
    retained = {manifest.path: manifest for manifest in _manifests(kept, storage, lost)}
    refuse_lost(lost, kept, metadata, storage)
    gone = [snapshot for snapshot in metadata.snapshots if snapshot.id in expired]
    alone = {manifest.path: manifest for manifest in _manifests(gone, storage, lost, read=retained)}
    files = [DeletableFile(FileKind.MANIFEST, path) for path in alone]
    for path, content in contents_left(alone, storage, lost):
        with noted(path, lost):
            files += [DeletableFile(FileKind.CONTENT, named) for named in read_paths(content, path)]
    files += [
        DeletableFile(FileKind.MANIFEST_LIST, snapshot.manifest_list)
        for snapshot in gone
        if snapshot.manifest_list is not None
    ]
    files += [
        DeletableFile(FileKind.STATISTICS, path)
        for snapshot in expired
        for path in metadata.statistics_of.get(snapshot, ())
    ]
    suspects = Suspects(files, Spelling(), lost=list(lost))
    suspects.spare_needed(kept, retained.values(), metadata, storage)
    suspects.spare_reachable(metadata, storage, without=expired)
    return suspects


def metadata_files(metadata: TableMetadata, storage: Storage) -> frozenset[str]:
    """Return the metadata files that lead to this one: those that it names, those that the oldest of them names, and so
    on, as far as they exist (`ReachableFileUtil.metadataFileLocations`, recursive).
    """
    files, newest = {metadata.file}, metadata
    while new := [file for file in newest.metadata_log if file not in files]:
        files.update(new)
        earlier = _first_that_is_there(new, storage)
        if earlier is None:
            break
        newest = earlier
    return frozenset(files)


def _first_that_is_there(files: Iterable[str], storage: Storage) -> TableMetadata | None:
    for file in files:
        try:
            return read_table(file, storage)
        except VanishedError:
            continue
    return None


def _statistics(metadata: TableMetadata, *, without: Collection[int]) -> Iterator[str]:
    for snapshot, paths in metadata.statistics_of.items():
        if snapshot not in without:
            yield from paths


def _manifests(
    snapshots: Iterable[Snapshot],
    storage: Storage,
    lost: dict[str, bool],
    *,
    read: Container[str] = frozenset(),
    read_lists: Container[str] = frozenset(),
) -> Iterator[Manifest]:
    """Yield each manifest of these snapshots once. Leave out the manifests that were `read` before, and the manifest
    lists in `read_lists`. Manifest lists that are gone or damaged are noted in `lost`.
    """
    seen: set[str] = set()
    lists = (path for path in map(list_of, snapshots) if path not in read_lists)
    for path, content in contents_left(lists, storage, lost):
        with noted(path, lost):
            for manifest in read_manifest_list(content, path=path, without=seen):
                seen.add(manifest.path)
                if manifest.path not in read:
                    yield manifest


# The snapshots that declared incremental readers still need. Pure.
#
# A reader goes from the snapshot at which it stands to the head of its branch, from each snapshot to the next. So that
# snapshot has to stay, and all of the branch after it. A stream of Spark (`SparkMicroBatchStream`, 1.11.0) stands at an
# append. It skips other snapshots, and does not write down that it has passed them.


def misread(readers: Sequence[IncrementalReader]) -> str | None:
    """Return why the declared readers cannot be told apart; None if they can."""
    names = [reader.name for reader in readers]
    twice = next((name for name in names if names.count(name) > 1), None)
    return None if twice is None else f"two readers have the name {twice}"


class NoSuchBranchError(PermanentError):
    """A reader is declared on a branch that the table does not have. The message is the `reason` with the `remedy`."""

    remedy = "correct the branch of the reader in options.readers, or remove the reader if the branch was dropped"

    def __init__(self, reader: IncrementalReader) -> None:
        self.reason = (
            f"reader {reader.name} is declared on the branch {shown(reader.branch)}, and the table has no such branch"
        )
        super().__init__(f"{self.reason}: {self.remedy}")


def read_by(reader: IncrementalReader, metadata: TableMetadata) -> Sequence[Snapshot]:
    """Return the snapshots of the reader's branch, the newest first. Raises NoSuchBranchError."""
    if reader.branch == MAIN:
        return metadata.ancestors(metadata.current)
    head = next((ref.snapshot for ref in metadata.refs if ref.is_branch and ref.name == reader.branch), None)
    if head is None:
        raise NoSuchBranchError(reader)
    return metadata.ancestors(head)


def needed_until(reader: IncrementalReader, branch: Sequence[Snapshot]) -> Mapping[int, datetime]:
    """Return until when a reader may need each snapshot of its `branch`, which has the newest first.

    A reader has always read all of the branch that is older than its lag. It needs a snapshot until it has certainly
    passed to a later one. For a scan this is the next snapshot, for a stream the next append.
    """
    lag = after(reader.longest_lag)
    # A writer's clock may have been behind. So a snapshot counts as young as the youngest of its ancestors.
    read_at = [lag(at) for at in reversed([*accumulate((snapshot.at for snapshot in reversed(branch)), max)])]
    until: dict[int, datetime] = {}
    passed_at = FOR_EVER
    for snapshot, at in zip(branch, read_at, strict=True):
        until[snapshot.id] = passed_at
        if reader.kind is ReaderKind.SCAN or snapshot.operation == "append":
            passed_at = at
    return until


def positions(readers: Iterable[IncrementalReader], metadata: TableMetadata, now: datetime) -> Iterator[ReaderPosition]:
    """Yield the position of each reader if it is as far behind as it may be. Without its branch it has none."""
    for reader in readers:
        try:
            branch = read_by(reader, metadata)
        except NoSuchBranchError as missing:
            yield ReaderPosition(name=reader.name, unreadable=str(missing))
            continue
        until = needed_until(reader, branch)
        needed = [snapshot for snapshot in branch if until[snapshot.id] >= now]
        writes = (
            metadata.writes()
            if reader.branch == MAIN
            else [snapshot for snapshot in branch if snapshot.operation != "replace"]
        )
        unread = [write for write in writes if now - write.at <= reader.longest_lag]
        yield ReaderPosition(
            name=reader.name,
            at=f"{format_duration(reader.longest_lag)} back at most",
            behind=len(unread),
            unread_since=min((write.at for write in unread), default=None),
            needs=str(needed[-1].id) if needed else None,
        )
