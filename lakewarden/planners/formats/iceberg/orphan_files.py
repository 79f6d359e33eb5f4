"""The files below a table's folder that nothing knows."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from lakewarden.planners.formats.iceberg.files import VanishedError, read_table
from lakewarden.planners.formats.iceberg.metadata import TableMetadata
from lakewarden.planners.formats.iceberg.plans_beside import DELETING, file_of
from lakewarden.planners.formats.iceberg.reachable import Kind, NamedFile, Suspects, metadata_files
from lakewarden.planners.formats.iceberg.service_options import OrphansOptions, PrefixMismatch
from lakewarden.planners.formats.iceberg.spelling import Spelling
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.ports import MOST_FILES, FileEntry, Storage

YOUNGEST = timedelta(hours=24)
"""No younger file is deleted, whatever the settings say: it may belong to a commit that is under way."""

_METADATA = "metadata"
_METADATA_FILE = ".metadata.json"
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
    return any(_METADATA_FILE in entry.name for entry in inside)


def unknown_files(
    metadata: TableMetadata, options: OrphansOptions, storage: Storage, *, probe: Probe, now: datetime
) -> Suspects:
    """Return the files that are old enough and may belong to nothing: the listing alone, before metadata is read.

    How old a file is, the storage's own clock says, as far as ours does not say less. Raises TemporaryError where the
    listing does not show the `probe`: it is not of now.
    """
    folder = Spelling().folder(metadata.location)
    found = list(files_below(folder, storage))
    storage_now = next((one.written_at for one in found if (one.path, one.size) == (probe.path, probe.size)), None)
    if storage_now is None or storage_now < _NEVER:
        raise TemporaryError(f"the listing of {folder} does not show {probe.path} as it was written a moment ago")
    before = min(storage_now, now) - max(options.older_than, YOUNGEST)
    old = (one.path for one in found if _NEVER < one.written_at < before)
    return Suspects([NamedFile(Kind.ORPHAN, f"{metadata.location}/{path}") for path in old], Spelling())


def spare_known(
    suspects: Suspects, metadata: TableMetadata, options: OrphansOptions, storage: Storage, *, lists: Collection[str]
) -> None:
    """Let go of everything that the table needs: what its snapshots reach, its metadata files and its version hint,
    our plans beside it and the `lists` of those that are pending.

    Raises what reading the metadata raises, and PermanentError where files are known by the same path in another
    store (unless that is ignored) or the folder holds metadata of another table.
    """
    suspects.spare_reachable(metadata, storage)
    for path in (*metadata_files(metadata, storage), f"{metadata.location}/{_METADATA}/{_VERSION_HINT}", *lists):
        suspects.spare(path)
    for service in DELETING:
        suspects.spare(file_of(service, metadata.location))
        suspects.spare(file_of(service, metadata.location, beside=True))
    if suspects.mistaken and options.on_prefix_mismatch is PrefixMismatch.REFUSE:
        listed, known = next(iter(suspects.mistaken.items()))
        raise PermanentError(
            f"{listed} is known to the table as {known}: whether they are one file cannot be told from their names. "
            "Set on_prefix_mismatch: ignore to leave such files alone"
        )
    _refuse_other_tables(suspects, metadata, storage)


def _refuse_other_tables(suspects: Suspects, metadata: TableMetadata, storage: Storage) -> None:
    """Raise PermanentError where a metadata file that nobody knows is of another table: whose the other files are can
    then not be told.
    """
    for file in suspects.files():
        if _METADATA_FILE not in file.path.rpartition("/")[2]:
            continue
        try:
            other = read_table(file.path, storage)
        except VanishedError:
            continue
        if other.uuid != metadata.uuid:
            raise PermanentError(
                f"{file.path} is of another table (table-uuid {other.uuid}): two tables share this folder, or an "
                "earlier one was dropped without its files. Move what is not this table's away"
            )
