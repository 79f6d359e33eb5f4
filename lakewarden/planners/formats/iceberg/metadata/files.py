"""Reading a table's own files, wherever its metadata says that they lie."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

from lakewarden.planners.formats.iceberg.metadata.manifests import (
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
    metadata_of,
)
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.ports import Storage
from lakewarden.planners.storage.content import TooLargeError
from lakewarden.planners.storage.locations import canonical_location

_LARGEST = 512 * 2**20
"""A manifest is cut at `commit.manifest.target-size-bytes`."""

_READ_AT_A_TIME = 16

_AT_ONCE = 64 * 2**20
"""A metadata file holds a kilobyte for every snapshot. A larger one is read in parts of so many bytes."""


class VanishedError(TemporaryError):
    """A file that the table named is not there: an expiry, or a commit that deletes old metadata, was faster."""


def read_table(file: str, storage: Storage, *, told: Told | None = None) -> TableMetadata:
    """Return what a metadata file says. Of the snapshots that an earlier version has `told` none is decoded again.

    Raises CorruptMetadataError, VanishedError and TemporaryError; PermanentError for a table whose location is no whole
    address.
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
    if not metadata.location.startswith("/") and ":" not in metadata.location:
        raise PermanentError(
            f"{file} says that the table lies in {metadata.location[:200]!r}, which is no whole address: where that is "
            "depends on the folder in which a writer was started. Give its warehouse an absolute path, and write the "
            "table anew, or move its addresses (CALL system.rewrite_table_path)"
        )
    return metadata


def _parts(file: str, storage: Storage) -> Callable[[], Iterator[bytes]]:
    """Return what gives the file's content, as often as it is asked: one request where it is not large."""
    try:
        content = _content(file, storage, limit=_AT_ONCE)
    except TooLargeError:
        return lambda: _in_parts(file, storage)
    return lambda: iter((content,))


def _in_parts(file: str, storage: Storage) -> Iterator[bytes]:
    for begin in itertools.count(0, _AT_ONCE):
        part = _asked(file, partial(storage.read_part, begin=begin, size=_AT_ONCE))
        yield part
        if len(part) < _AT_ONCE:
            return


def manifests_of(snapshot: Snapshot, storage: Storage) -> tuple[Manifest, ...]:
    """Return the manifests of a snapshot. Raises CorruptMetadataError, VanishedError and TemporaryError."""
    return manifests_in(list_of(snapshot), storage)


def manifests_in(manifest_list: str, storage: Storage) -> tuple[Manifest, ...]:
    """Return what a manifest list names. Raises CorruptMetadataError, VanishedError and TemporaryError."""
    return read_manifest_list(_content(manifest_list, storage), path=manifest_list)


def list_of(snapshot: Snapshot) -> str:
    """Return where a snapshot's manifest list is. Raises CorruptMetadataError where it has none."""
    if snapshot.manifest_list is None:
        raise CorruptMetadataError(
            f"snapshot {snapshot.id} has no manifest list, as none had before Iceberg 0.8: commit to the table once "
            "with a newer release"
        )
    return snapshot.manifest_list


def contents(files: Iterable[str], storage: Storage) -> Iterator[tuple[str, bytes]]:
    """Yield files with their content, in their order. Several are read at a time, for stores answer slowly, and none
    far ahead. Raises VanishedError, PermanentError and TemporaryError.
    """
    with ThreadPoolExecutor(_READ_AT_A_TIME, thread_name_prefix="manifests") as pool:
        ahead: deque[tuple[str, Future[bytes]]] = deque()
        try:
            for file in files:
                ahead.append((file, pool.submit(_content, file, storage)))
                if len(ahead) > _READ_AT_A_TIME:
                    first, content = ahead.popleft()
                    yield first, content.result()
            while ahead:
                first, content = ahead.popleft()
                yield first, content.result()
        finally:
            for _, unwanted in ahead:
                unwanted.cancel()


def files_of(manifests: Iterable[Manifest], metadata: TableMetadata, storage: Storage) -> Iterator[ContentFile]:
    """Yield what manifests say of their files, the deleted ones included. Raises CorruptMetadataError, VanishedError
    and TemporaryError.
    """
    for manifest in manifests:
        yield from read_manifest(_content(manifest.path, storage), manifest, metadata.specs)


_STORES = frozenset({"s3", "gs", "abfss", "hdfs", "wasb", "wasbs", "oss", "viewfs", "memory"})
"""What a table's files lie in, beside local disks. A metadata file may name anything, and nobody is asked by HTTP."""


def _content(file: str, storage: Storage, *, limit: int = _LARGEST) -> bytes:
    return _asked(file, lambda spelled: storage.read(spelled, limit=limit))


def _asked(file: str, ask: Callable[[str], bytes]) -> bytes:
    try:
        # A plain path needs no other spelling, and to resolve its links would cost more than many a manifest.
        return ask(file if file.startswith("/") else _in_a_store(file))
    except FileNotFoundError as error:
        raise VanishedError(f"{file}, which the table names, is not there{_about_slashes(file)}") from error


def _about_slashes(file: str) -> str:
    """Return what may be wrong with an address of which the store's client makes another one."""
    scheme, _, rest = file.partition("://")
    if scheme not in ("s3", "gs", "abfss") or "//" not in rest:
        return ""
    return (
        ". It has two slashes in a row, which Hadoop's clients take for one and Iceberg's own for a name without "
        "letters: of these no object is read here. Give the table a location without them (CALL "
        "system.rewrite_table_path)"
    )


def _in_a_store(file: str) -> str:
    """Return the canonical address of a file. Raises PermanentError where no store that we know holds it."""
    location = canonical_location(file)
    scheme, separator, _ = location.partition("://")
    if separator and scheme not in _STORES:
        raise PermanentError(f"the table names {file[:200]}: no file of a table is read by {scheme}://")
    return location
