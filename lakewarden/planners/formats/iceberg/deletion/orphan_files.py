"""The files below a table's folder that the table does not know."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple
from urllib.parse import unquote_plus

from lakewarden.planners.formats.iceberg.deletion.candidates import Candidates, Digests, Spool, TableFolder
from lakewarden.planners.formats.iceberg.deletion.catalog_behind import METADATA_FILE, left_of_a_commit
from lakewarden.planners.formats.iceberg.deletion.plans_beside import DELETING, file_of, seen_file_of
from lakewarden.planners.formats.iceberg.deletion.reachable import metadata_files
from lakewarden.planners.formats.iceberg.metadata.files import VanishedError, content_of
from lakewarden.planners.formats.iceberg.metadata.manifests import origin_of, read_manifest_list, read_paths
from lakewarden.planners.formats.iceberg.metadata.metadata import CorruptMetadataError, TableMetadata
from lakewarden.planners.formats.iceberg.metadata.parsing import Spelling, path_alone
from lakewarden.planners.formats.iceberg.options.service_options import OrphansOptions, PrefixMismatch
from lakewarden.planners.formats.layouts import LAYOUTS, FoundTable, found_in
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.ports import FileEntry, Storage
from lakewarden.planners.storage.locations import is_local

# What an Iceberg writer of a table could have written, by the path below the table's folder.
#
# People keep other things in the folder of a table: the checkpoint of a stream, tables of other formats, a table below.
# No snapshot knows them, and they are no orphans.

_DATA_PATHS = ("write.data.path", "write.object-storage.path", "write.folder-storage.path")
_METADATA_PATH = "write.metadata.path"

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_DATA_FILE = re.compile(
    rf"([01]{{8}}-)?(\d{{5}}-\d+-\S*{_UUID}\S*|\d{{8}}_\d{{6}}_\d{{5}}_\w{{5}}-{_UUID}|{_UUID}(-\d+)*)"
    r"\.(parquet|orc|avro|puffin)"
)
"""Source: Iceberg 1.11, `OutputFileFactory.generateFilename`, also of pyiceberg and iceberg-go; Trino 470,
`IcebergUtil.fileName`; DuckDB 1.4. In front, object storage without paths of partitions puts the end of a hash
(`LocationProviders.ObjectStoreLocationProvider`)."""


def is_named_by_a_writer(path: str) -> bool:
    """Whether a writer of Iceberg names files of data so. Files that `add_files` took in have other names."""
    return _DATA_FILE.fullmatch(path.rpartition("/")[2]) is not None


_METADATA_FILE = re.compile(
    rf"lakewarden-\S+|\S+\.(avro|stats|puffin)|(v\d+|\d+-{_UUID}|{_UUID})(\.\w+)?\.metadata\.json(\.\w+)?"
)
"""Writers name manifests and statistics as they like. Versions of the table have numbers, and in a Hadoop catalog the
next one has no number yet (`HadoopTableOperations.commit`). People keep copies of versions under other names."""

_PARTITION = re.compile(r"([^/=]+)=[^/]*")
_HASH = re.compile(r"[01]{4}|[01]{8}|[0-9a-f]{8}|[\w-]{6}==")
"""Folders of an object storage layout, between a table's folder of data and a file: bits, before Iceberg 1.7 base64."""


def is_of_a_layout(folder: str) -> bool:
    """Whether Iceberg names a folder so, below a table: the folders of data and metadata, partitions and hashes."""
    return folder in ("data", "metadata") or any(kind.fullmatch(folder) for kind in (_PARTITION, _HASH))


class OwnNames:
    """Whether an Iceberg writer of this table could have written a file. A location provider of the user's own is not
    known: its files are no orphans. Nor are files in partitions by fields that the table never had.
    """

    def __init__(self, metadata: TableMetadata) -> None:
        home = f"{_canonical(metadata.location)}/"
        named = [_canonical(metadata.properties[key]) for key in _DATA_PATHS if key in metadata.properties]
        below = [f"{folder}/".removeprefix(home) for folder in named if f"{folder}/".startswith(home)]
        self._data = tuple(sorted({"data/", *below}, key=len, reverse=True))
        self._fields = {field.name for spec in metadata.specs.values() for field in spec}
        metadata_folder = f"{_canonical(metadata.properties.get(_METADATA_PATH, f'{home}metadata'))}/"
        self._metadata = {"metadata/", metadata_folder.removeprefix(home)}

    def __contains__(self, path: str) -> bool:
        """Whether a file may be one of the table's. `path` is the path from the table's folder."""
        folder, _, name = path.rpartition("/")
        if f"{folder}/" in self._metadata:
            return _METADATA_FILE.fullmatch(name) is not None
        return _DATA_FILE.fullmatch(name) is not None and any(self._leads(data, folder) for data in self._data)

    def _leads(self, data: str, folder: str) -> bool:
        inner = f"{folder}/" if folder else ""
        return inner.startswith(data) and all(map(self._is_between, inner[len(data) :].split("/")[:-1]))

    def _is_between(self, folder: str) -> bool:
        partition = _PARTITION.fullmatch(folder)
        is_own = partition is not None and unquote_plus(partition[1]) in self._fields
        return is_own or _HASH.fullmatch(folder) is not None


def _canonical(location: str) -> str:
    return path_alone(Spelling().folder(location))


_METADATA = "metadata"
_MANIFEST = ".avro"
_VERSION_HINT = "version-hint.text"
_HIDDEN = ("_", ".")
_AT_FIRST = 10_000
# Iceberg is younger than that: the store does not know the time
_NEVER = datetime.fromisoformat("2000-01-01T00:00:00+00:00")


class FoundFile(NamedTuple):
    """A file below a folder: its path from the folder, the time of its last write, and its size in bytes."""

    path: str
    written_at: datetime
    size: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Probe:
    """A file that a run has just written. Its time is read from a listing, and that is the storage's own clock. `path`
    is the path from the table's folder.
    """

    path: str
    size: int


@dataclass(kw_only=True, slots=True)
class NotOurs:
    """What lies below a table's folder and is no file of the table: `tables` by their folder, and the number of other
    `files` by the first folder on the way to them.
    """

    tables: dict[str, str] = field(default_factory=dict)
    files: Counter[str] = field(default_factory=Counter)

    def count(self, path: str) -> None:
        """Count a file that no writer of the table could have made."""
        first, _, rest = path.partition("/")
        folder = first if rest else ""
        self.files[folder if folder in self.files or len(self.files) < _MOST_FOLDERS else ELSEWHERE] += 1

    def told(self) -> Mapping[str, str]:
        """Return what lies in each folder, in words: the tables, and then those with most files."""
        files = {folder: f"{count} files" if count > 1 else "1 file" for folder, count in self.files.most_common()}
        return dict(itertools.islice({**self.tables, **files}.items(), _MOST_TOLD))


_MOST_FOLDERS = 1000
_MOST_TOLD = 20
ELSEWHERE = "elsewhere"


def files_below(
    folder: str, storage: Storage, not_ours: NotOurs | None = None, foreign: Mapping[str, str] | None = None
) -> Iterator[FoundFile]:
    """Yield every file below a table's folder. Raises TemporaryError if a part of it cannot be listed whole.

    It leaves out what is no file of this Iceberg table: names that begin with `_` or `.` (the checksums of Hadoop are
    deleted with their files), links to other folders, and tables of any format in folders below and `foreign` folders,
    which are noted in `not_ours`.
    """
    yield from _below(folder, "", storage, NotOurs() if not_ours is None else not_ours, foreign or {})


def _below(
    folder: str, path: str, storage: Storage, not_ours: NotOurs, foreign: Mapping[str, str]
) -> Iterator[FoundFile]:
    if (theirs := foreign.get(path.rstrip("/"))) is not None:
        not_ours.tables[path.rstrip("/")] = theirs
        return
    entries = storage.entries(folder)
    try:
        first = list(itertools.islice(entries, _AT_FIRST))
    except FileNotFoundError:  # it has been deleted meanwhile, or an object store has no empty folder
        return
    if path and (table := _table_in(folder, first, storage)) is not None:
        not_ours.tables[path.rstrip("/")] = table.table
        return
    for entry in itertools.chain(first, entries):
        if entry.name.startswith(_HIDDEN):
            continue
        below, from_here = f"{folder}/{entry.name}", f"{path}{entry.name}"
        if not entry.is_folder:
            yield FoundFile(from_here, entry.modified, entry.size)
        elif not is_local(below) or Spelling().folder(below) == below:  # no link
            yield from _below(below, f"{from_here}/", storage, not_ours, foreign)


def _table_in(folder: str, first: Sequence[FileEntry], storage: Storage) -> FoundTable | None:
    """Return the table in a folder with these `first` entries, of any format. None if there is none."""
    named = {entry.name for entry in first if entry.is_folder}
    whole = len(first) < _AT_FIRST
    formats = [name for name, layout in LAYOUTS.items() if not whole or layout.folder in named]
    return next(iter(found_in(folder, storage, formats=formats)), None)


@dataclass(frozen=True, kw_only=True, slots=True)
class FolderListing:
    """What one listing of a table's folder shows. It is not compared with metadata yet.

    `old` are the files that are old by the daemon's clock, in parts. Each part is compared with the metadata by itself.
    `manifests` are those of them in the metadata folder that may be manifests. `versions` are all metadata files of any
    age. Paths are from the folder. `not_ours` is what no writer of the table could have made. `at` is the storage's
    current time. A file that was written `before` is old enough by both clocks.
    """

    folder: TableFolder
    old: Sequence[Spool]
    manifests: Spool
    versions: Spool
    not_ours: NotOurs
    at: datetime
    before: datetime

    def candidates(self) -> Iterator[Candidates]:
        """Yield the files that are old enough, one part after the other."""
        return (Candidates(files, self.folder, before=self.before) for files in self.old)


AT_A_TIME = 11_000_000
"""How many files are compared with the metadata at a time. They take 150 MiB. The metadata is read once for
each part."""


def listed(
    metadata: TableMetadata,
    storage: Storage,
    *,
    older_than: timedelta,
    probe: Probe,
    now: datetime,
    among: Digests | None = None,
    foreign: Mapping[str, str] | None = None,
) -> FolderListing:
    """List a table's folder, before its metadata is read. A file is old if it was written more than `older_than` ago,
    could have been written by a writer of the table (`OwnNames`), lies in no `foreign` folder, and is one of `among`,
    if that is given.

    The age of a file is the smaller one of its ages by the storage's clock and by the daemon's. Raises TemporaryError
    if the listing does not show the `probe`: then the listing is stale.
    """
    folder, own, not_ours = TableFolder(metadata.location), OwnNames(metadata), NotOurs()
    old, manifests, versions, storage_now = [Spool()], Spool(), Spool(), None
    for path, written_at, size in files_below(folder.address, storage, not_ours, foreign):
        if METADATA_FILE in path.rpartition("/")[2]:
            versions.add(path, written_at)
        if (path, size) == (probe.path, probe.size):
            storage_now = written_at
        if path not in own:
            not_ours.count(path)
            continue
        if not _NEVER < written_at < now - older_than or (among is not None and folder.path(path) not in among):
            continue
        if len(old[-1]) == AT_A_TIME:
            old.append(Spool())
        old[-1].add(path, written_at)
        if path.startswith(f"{_METADATA}/") and path.endswith(_MANIFEST):
            manifests.add(path, written_at)
    if storage_now is None or storage_now < _NEVER:
        raise TemporaryError(
            f"the listing of {folder.address} does not show {probe.path} as it was written a moment ago"
        )
    before = min(storage_now, now) - older_than
    return FolderListing(
        folder=folder, old=old, manifests=manifests, versions=versions, not_ours=not_ours, at=storage_now, before=before
    )


def spare_known(
    candidates: Candidates,
    listing: FolderListing,
    metadata: TableMetadata,
    options: OrphansOptions,
    storage: Storage,
    *,
    lists: Collection[str],
) -> None:
    """Remove all candidates that the table needs. These are the files that its snapshots reach, its metadata files and
    its version hint, Lakewarden's plans beside it, the `lists` of pending plans, the list of files seen before, and
    what is left of commits that were given up (`spare_leftovers`). The metadata was read after the listing.

    Raises what reading the metadata raises. Raises PermanentError if the metadata knows files by the same path in
    another store, unless the options ignore that. Raises what `spare_leftovers` raises.
    """
    versions = metadata_files(metadata, storage)
    candidates.spare_reachable(metadata, storage)
    for path in (*versions, f"{metadata.location}/{_METADATA}/{_VERSION_HINT}", *lists):
        candidates.spare(path)
    candidates.spare(seen_file_of(metadata.location))
    for service in DELETING:
        candidates.spare(file_of(service, metadata.location))
        candidates.spare(file_of(service, metadata.location, beside=True))
    if candidates:
        spare_leftovers(candidates, listing, metadata, storage, versions=versions)
    if candidates.mistaken is not None and options.on_prefix_mismatch is PrefixMismatch.REFUSE:
        wrong, own_path = candidates.mistaken
        raise PermanentError(
            f"{wrong} is known to the table as {own_path}: whether they are one file cannot be told from their names. "
            "Set on_prefix_mismatch: ignore to leave such files alone"
        )


def spare_leftovers(
    candidates: Candidates,
    listing: FolderListing,
    metadata: TableMetadata,
    storage: Storage,
    *,
    versions: Collection[str],
) -> None:
    """Remove the candidates that belong to commits which followed this very version of the table and were given up.
    After the next commit such files are older than the table, and then they are orphans like others.

    Raises an error if the folder shows more than this metadata knows: another table, or newer versions of this one in
    another catalog.
    """
    spelled, newest = Spelling(), metadata.updated_at
    version_paths, current, given_up_after = (
        {spelled(path) for path in versions},
        spelled(metadata.file),
        listing.at - listing.before,
    )
    for file, written_at in listing.versions:
        path = f"{listing.folder.location}/{file}"
        if spelled(path) == current:
            newest = written_at
        elif spelled(path) not in version_paths:
            age = listing.at - written_at
            left = left_of_a_commit(path, metadata, storage, age=age, given_up_after=given_up_after)
            if left is not None:
                candidates.spare(path)
                candidates.spare_reachable(left, storage)
    unknown = (
        f"{listing.folder.location}/{file}"
        for file, written_at in listing.manifests
        if written_at > newest and candidates.may_go(file)
    )
    for number, path in enumerate(unknown):
        if number == _MOST_LEFT or not _spare_what_it_names(path, candidates, metadata, storage):
            raise PermanentError(
                f"{path} was written after the newest version of the table, which does not know it: another table may "
                "share this folder, or another catalog hold newer versions of this one. If it is what a writer left "
                "behind, commit to the table once, or move the file away"
            )


_MOST_LEFT = 1000
"""No commit leaves so many manifests behind, and no writer fails to commit so often."""


def _spare_what_it_names(path: str, candidates: Candidates, metadata: TableMetadata, storage: Storage) -> bool:
    """Spare a manifest, or a manifest list, with all files that it names. Return False if it may belong to another
    table: the manifest list does not follow a snapshot of this table, or it cannot be read. A manifest that no list
    names belongs to no table, and so does a file that breaks off.
    """
    try:
        content = content_of(path, storage)
        origin = origin_of(content, path) if content else None
        if origin is not None and origin.is_list and origin.parent not in metadata.by_id:
            return False
        candidates.spare(path)
        if origin is not None and origin.is_whole:
            manifests = (
                [manifest.path for manifest in read_manifest_list(content, path=path)] if origin.is_list else [path]
            )
            for manifest in manifests:
                candidates.spare(manifest)
                for named in read_paths(content_of(manifest, storage), manifest):
                    candidates.spare(named)
    except CorruptMetadataError:
        return False
    except VanishedError:
        pass
    return True
