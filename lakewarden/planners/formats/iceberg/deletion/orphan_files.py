"""The files below a table's folder that nothing knows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from lakewarden.planners.formats.iceberg.deletion import first_seen
from lakewarden.planners.formats.iceberg.deletion.ahead import METADATA_FILE, refuse_if_ahead
from lakewarden.planners.formats.iceberg.deletion.plans_beside import DELETING, file_of
from lakewarden.planners.formats.iceberg.deletion.reachable import Kind, NamedFile, Suspects, metadata_files
from lakewarden.planners.formats.iceberg.metadata.metadata import TableMetadata
from lakewarden.planners.formats.iceberg.metadata.spelling import Spelling
from lakewarden.planners.formats.iceberg.options.service_options import OrphansOptions, PrefixMismatch
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.ports import MOST_FILES, FileEntry, Storage

_METADATA = "metadata"
_MANIFEST = ".avro"
_VERSION_HINT = "version-hint.text"
_HIDDEN = ("_", ".")
_NEVER = datetime.fromisoformat("2000-01-01T00:00:00+00:00")  # before it there was no Iceberg: the store does not know


class Found(NamedTuple):
    """A file below a folder: its path from there, when it was last written, and its size in bytes."""

    path: str
    written_at: datetime
    size: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Probe:
    """A file that was written a moment ago, from which the storage's own clock is read: its path from the table's
    folder, and its size.
    """

    path: str
    size: int


def files_below(folder: str, storage: Storage) -> Iterator[Found]:
    """Yield every file below a table's folder. Raises TemporaryError where a part of it cannot be listed whole.

    Left out is what no table of Iceberg's has there: names that begin with `_` or `.`, among them the checksums
    that Hadoop keeps beside files on local disks, which go with their files; links to other folders; and tables in
    folders of their own below.
    """
    yield from _below(folder, "", storage)


def _below(folder: str, path: str, storage: Storage) -> Iterator[Found]:
    try:
        entries = storage.listing(folder, most=MOST_FILES)
    except FileNotFoundError:  # it has gone meanwhile; an object store knows no empty folder
        return
    if path and _is_a_table(folder, entries, storage):
        return
    for entry in entries:
        if entry.name.startswith(_HIDDEN):
            continue
        below, from_here = f"{folder}/{entry.name}", f"{path}{entry.name}"
        if not entry.is_folder:
            yield Found(from_here, entry.modified, entry.size)
        elif Spelling().folder(below) == below:  # no link
            yield from _below(below, f"{from_here}/", storage)


def _is_a_table(folder: str, entries: Collection[FileEntry], storage: Storage) -> bool:
    if not any(entry.is_folder and entry.name == _METADATA for entry in entries):
        return False
    try:
        inside = storage.listing(f"{folder}/{_METADATA}")
    except FileNotFoundError:
        return False
    return any(METADATA_FILE in entry.name for entry in inside)


@dataclass(frozen=True, kw_only=True, slots=True)
class Listing:
    """What one listing of a table's folder shows, held against no metadata yet.

    `suspects` are old enough to go, and `written` says when each of those that were listed was written, by the storage.
    `versions` are all metadata files, however young, likewise. `at` is the storage's now.
    """

    suspects: Suspects
    written: Mapping[str, datetime]
    versions: Mapping[str, datetime]
    at: datetime

    def unknown(self) -> Mapping[str, datetime]:
        """Return the suspects that are left, with when they were written."""
        return {file.path: self.written[file.path] for file in self.suspects.files()}

    def among(self, files: Iterable[NamedFile]) -> Listing:
        """Return the listing with those of `files` alone that are suspects in it."""
        return replace(self, suspects=self.suspects.among(files))


def listed(metadata: TableMetadata, storage: Storage, *, older_than: timedelta, probe: Probe, now: datetime) -> Listing:
    """List a table's folder, before its metadata is read. Suspects are the files that are `older_than` so long.

    How old a file is, the storage's own clock says, as far as ours does not say less. Raises TemporaryError where the
    listing does not show the `probe`: it is not of now.
    """
    folder = Spelling().folder(metadata.location)
    found = list(files_below(folder, storage))
    storage_now = next((one.written_at for one in found if (one.path, one.size) == (probe.path, probe.size)), None)
    if storage_now is None or storage_now < _NEVER:
        raise TemporaryError(f"the listing of {folder} does not show {probe.path} as it was written a moment ago")
    before = min(storage_now, now) - older_than
    named = {f"{metadata.location}/{one.path}": one.written_at for one in found}
    old = {path: written_at for path, written_at in named.items() if _NEVER < written_at < before}
    return Listing(
        suspects=Suspects([NamedFile(Kind.ORPHAN, path) for path in old], Spelling()),
        written=old,
        versions={path: at for path, at in named.items() if METADATA_FILE in path.rpartition("/")[2]},
        at=storage_now,
    )


def spare_known(
    listing: Listing, metadata: TableMetadata, options: OrphansOptions, storage: Storage, *, lists: Collection[str]
) -> None:
    """Let go of all suspects that the table needs: what its snapshots reach, its metadata files and its version hint,
    our plans beside it, the `lists` of those that are pending and that of what was unknown before. The metadata was
    read after the listing.

    Raises what reading the metadata raises, PermanentError where files are known by the same path in another store
    (unless that is ignored), and what `_refuse_strangers` raises.
    """
    suspects, versions = listing.suspects, metadata_files(metadata, storage)
    suspects.spare_reachable(metadata, storage)
    for path in (*versions, f"{metadata.location}/{_METADATA}/{_VERSION_HINT}", *lists):
        suspects.spare(path)
    suspects.spare(first_seen.file_of(metadata.location))
    for service in DELETING:
        suspects.spare(file_of(service, metadata.location))
        suspects.spare(file_of(service, metadata.location, beside=True))
    if suspects.mistaken and options.on_prefix_mismatch is PrefixMismatch.REFUSE:
        wrong, known = next(iter(suspects.mistaken.items()))
        raise PermanentError(
            f"{wrong} is known to the table as {known}: whether they are one file cannot be told from their names. "
            "Set on_prefix_mismatch: ignore to leave such files alone"
        )
    if suspects:
        _refuse_strangers(listing, metadata, storage, versions=versions)


def _refuse_strangers(
    listing: Listing, metadata: TableMetadata, storage: Storage, *, versions: Collection[str]
) -> None:
    """Raise an error where the folder shows that more is known of its files than this metadata knows: another table,
    or this one by another catalog. A metadata file that is not whole is nobody's version, and a leftover like others.
    """
    spelled = Spelling()
    known = {spelled(path) for path in versions}
    for path, written_at in listing.versions.items():
        if spelled(path) not in known:
            refuse_if_ahead(path, metadata, storage, age=listing.at - written_at)
    newest = listing.versions.get(metadata.file, metadata.updated_at)
    beside = f"{metadata.location}/{_METADATA}/"
    for path, written_at in listing.written.items():
        of_metadata = path.startswith(beside) and path.endswith(_MANIFEST)
        if of_metadata and written_at > newest and path in listing.suspects:
            raise PermanentError(
                f"{path} was written after the newest version of the table, which does not know it: another table may "
                "share this folder, or another catalog hold newer versions of this one. If it is what a writer left "
                "behind, commit to the table once, or move the file away"
            )
