"""Reads a table's own files at the addresses that its metadata names."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from lakewarden.planners.formats.iceberg.metadata.manifests import (
    SMALLER,
    ContentFile,
    Manifest,
    read_manifest,
    read_manifest_list,
)
from lakewarden.planners.formats.iceberg.metadata.metadata import (
    CorruptMetadataError,
    Snapshot,
    TableMetadata,
    Told,
    UnusableFileError,
)
from lakewarden.planners.formats.iceberg.metadata.parsing import metadata_of
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.ports import Storage
from lakewarden.planners.storage.content import FileTooLargeError, read_ahead
from lakewarden.planners.storage.locations import by_key, canonical_location

_LARGEST = 512 * 2**20
"""The largest manifest that is read. Writers cut manifests at `commit.manifest.target-size-bytes`."""

_AT_ONCE = 64 * 2**20
"""A metadata file holds about 1 KB for every snapshot. A larger file is read in parts of so many bytes."""


_RELATIVE = (
    "where that is depends on the folder in which a writer was started. Give its warehouse an absolute path, and write "
    "the table anew, or move its addresses (CALL system.rewrite_table_path)"
)


RESTORED = "if it stays so, restore it from a backup, or from what its store keeps of deleted files"
"""The remedy for a manifest, or a list of manifests, that is not there."""


class VanishedError(TemporaryError):
    """A file that the table named does not exist. An expiry, or a commit that deletes old metadata, was faster."""


def read_table(file: str, storage: Storage, *, told: Told | None = None) -> TableMetadata:
    """Return what a metadata file says. Snapshots that an earlier version has `told` are not decoded again.

    Raises CorruptMetadataError, VanishedError and TemporaryError. Raises PermanentError if the table's location is no
    complete address.
    """
    try:
        parts = _parts(file, storage)
        metadata = metadata_of(parts, file=file, told=told)
    except VanishedError as gone:
        remedy = "if it stays so, restore it, or register the newest version that is there (CALL system.register_table)"
        raise VanishedError(f"{gone}: {remedy}") from gone
    except CorruptMetadataError:
        raise
    except PermanentError as wrong:
        raise PermanentError(f"the table's metadata file cannot be read: {wrong}") from wrong
    if _is_relative(metadata.location):
        raise PermanentError(
            f"{file} says that the table lies in {metadata.location[:200]!r}, which is no whole address: {_RELATIVE}"
        )
    return metadata


def _parts(file: str, storage: Storage) -> Callable[[], Iterator[bytes]]:
    """Return a function that yields the file's content. It may be called several times. A small file takes one
    request.
    """
    try:
        content = _content(file, storage, limit=_AT_ONCE)
    except FileTooLargeError:
        return lambda: _in_parts(file, storage)
    return lambda: iter((content,))


def _in_parts(file: str, storage: Storage) -> Iterator[bytes]:
    for begin in itertools.count(0, _AT_ONCE):
        part = _asked(file, partial(storage.read_part, begin=begin, size=_AT_ONCE))
        yield part
        if len(part) < _AT_ONCE:
            return


def content_of(file: str, storage: Storage) -> bytes:
    """Return the content of a manifest or a manifest list. Raises VanishedError, PermanentError and TemporaryError."""
    return _whole(file, storage)


def manifests_of(snapshot: Snapshot, storage: Storage) -> tuple[Manifest, ...]:
    """Return the manifests of a snapshot. Raises CorruptMetadataError, VanishedError and TemporaryError."""
    return manifests_in(list_of(snapshot), storage)


def manifests_in(manifest_list: str, storage: Storage) -> tuple[Manifest, ...]:
    """Return the manifests of a manifest list. Raises CorruptMetadataError, VanishedError and TemporaryError."""
    return read_manifest_list(_whole(manifest_list, storage), path=manifest_list)


def list_of(snapshot: Snapshot) -> str:
    """Return the path of a snapshot's manifest list. Raises UnusableFileError if it has none."""
    if snapshot.manifest_list is None:
        raise UnusableFileError(
            f"snapshot {snapshot.id} has no manifest list, as none had before Iceberg 0.8: commit to the table once "
            "with a newer release"
        )
    return snapshot.manifest_list


def contents(files: Iterable[str], storage: Storage) -> Iterator[tuple[str, bytes]]:
    """Yield manifests or manifest lists with their content, in their order, before files are deleted. Raises
    VanishedError, PermanentError and TemporaryError.
    """
    try:
        yield from read_ahead(files, lambda file: _whole(file, storage))
    except VanishedError as gone:
        raise VanishedError(f"{gone}, so no file is deleted: {RESTORED}") from gone


def contents_left(files: Iterable[str], storage: Storage, lost: dict[str, bool]) -> Iterator[tuple[str, bytes]]:
    """Yield those manifests or manifest lists that are there, with their content. Note the others in `lost`: they are
    not damaged, but gone. Raises PermanentError and TemporaryError.
    """
    for file, content in read_ahead(files, lambda file: _if_there(file, storage)):
        if content is None:
            lost[file] = False
        else:
            yield file, content


def _if_there(file: str, storage: Storage) -> bytes | None:
    try:
        return _whole(file, storage)
    except VanishedError:
        return None


def missing(files: Iterable[str], storage: Storage) -> Iterator[str]:
    """Yield those manifests or manifest lists that are not there. Raises PermanentError and TemporaryError."""
    folders: dict[str, dict[str, str]] = {}
    for file in files:
        address = file if file.startswith("/") else _in_a_store(file)
        folder, _, name = address.rpartition("/")
        folders.setdefault(folder, {})[name] = file
    for folder, names in folders.items():
        there = set(storage.present(folder, names))
        yield from (file for name, file in names.items() if name not in there)


def files_of(manifests: Iterable[Manifest], metadata: TableMetadata, storage: Storage) -> Iterator[ContentFile]:
    """Yield the files of manifests, the deleted ones included. Raises CorruptMetadataError, VanishedError and
    TemporaryError.
    """
    for manifest in manifests:
        yield from read_manifest(_whole(manifest.path, storage), manifest, metadata.specs)


_STORES = frozenset({"s3", "gs", "abfss", "hdfs", "wasb", "wasbs", "oss", "viewfs", "memory"})
"""The schemes of stores that may hold a table's files, besides local disks. A metadata file may name any address.
Lakewarden sends no HTTP request to one."""


def _content(file: str, storage: Storage, *, limit: int = _LARGEST) -> bytes:
    return _asked(file, lambda spelled: storage.read(spelled, limit=limit))


def _whole(file: str, storage: Storage) -> bytes:
    """Return the content of a manifest or a manifest list. Raises UnusableFileError if it is too large."""
    try:
        return _content(file, storage)
    except FileTooLargeError as large:
        raise UnusableFileError(f"{large}. {SMALLER}") from large


def _asked(file: str, ask: Callable[[str], bytes]) -> bytes:
    try:
        # A plain path needs no other spelling. To resolve its links would take longer than to read many manifests.
        return ask(file if file.startswith("/") else _in_a_store(file))
    except FileNotFoundError as error:
        raise VanishedError(f"{file}, which the table names, is not there") from error


def _is_relative(address: str) -> bool:
    return not address.startswith("/") and ":" not in address.partition("/")[0]


def _in_a_store(file: str) -> str:
    """Return the canonical address of a file. Raises UnusableFileError if it is no whole address, or is in no store
    that Lakewarden knows.
    """
    if _is_relative(file):
        raise UnusableFileError(f"the table names the file {file[:200]!r}, which is not absolute: {_RELATIVE}")
    location = canonical_location(file)
    scheme, separator, _ = location.partition("://")
    if separator and scheme not in _STORES:
        raise UnusableFileError(
            f"the table names {file[:200]}: no file of a table is read by {scheme}://. Move its files to a store, and "
            "its addresses (CALL system.rewrite_table_path)"
        )
    return by_key(file) or location
