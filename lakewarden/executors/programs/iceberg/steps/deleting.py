"""What clean and orphans share: the plan beside the table, which the table's own FileIO writes, and the deletion."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

import structlog
from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JJavaError

from lakewarden.executors import points
from lakewarden.executors.points import Point
from lakewarden.executors.programs.iceberg.client.errors import translated
from lakewarden.executors.programs.iceberg.client.opened import OpenTable
from lakewarden.planners.formats.iceberg.backlog.blockers import why_files_stay
from lakewarden.planners.formats.iceberg.deletion.reachable import DeletableFile, FileKind
from lakewarden.planners.formats.iceberg.metadata.files import VanishedError
from lakewarden.planners.formats.iceberg.metadata.metadata import TableMetadata
from lakewarden.planners.formats.iceberg.metadata.spelling import Spelling
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.model.step import Step
from lakewarden.planners.storage.locations import by_key

log = structlog.get_logger(__name__)

_S3_FILE_IO = "org.apache.iceberg.aws.s3.S3FileIO"
_BATCH = 1000
_CHECKED = 100_000
"""After so many files their stores are asked whether the files are gone."""

_TOLD = 1000


def require_permission(metadata: TableMetadata) -> None:
    """Raise PermanentError if the table's own properties say that others may need its files."""
    if (why := why_files_stay(metadata)) is not None:
        raise PermanentError(f"{why.reason}; {why.remedy}")


def files_if_asked(table: OpenTable, metadata: TableMetadata, *, unneeded: int) -> int | None:
    """Return how many data and delete files the table has, if the run was asked to count them. These are the files of
    its current snapshot, and the `unneeded` files, which that snapshot does not have.
    """
    newest = metadata.current_snapshot
    if table.assignment.largest_share is None or newest is None:
        return None
    return newest.count("total-data-files") + newest.count("total-delete-files") + unneeded


@contextlib.contextmanager
def lost_if_unmoved(table: OpenTable, metadata: TableMetadata) -> Iterator[None]:
    """Turn a VanishedError into a PermanentError if the table is still at `metadata`: then the snapshot that
    needs the file has not expired.
    """
    try:
        yield
    except VanishedError as gone:
        if table.metadata().file != metadata.file:
            raise
        raise PermanentError(str(gone)) from gone


class DeletableFiles(Protocol):
    """Files that may be deleted. Some may be spared during the deletion."""

    def files(self) -> Iterable[DeletableFile]:
        """Return the files. Files of one kind follow each other."""
        ...

    def __contains__(self, path: str) -> bool:
        """Whether a file may still be deleted."""
        ...


def delete(table: OpenTable, suspects: DeletableFiles, spare: Callable[[TableMetadata], None]) -> dict[str, int]:
    """Delete the suspects that the table does not need. Return how many of each kind are gone.

    `spare` removes the files that the table needs from the suspects. It is called with the current metadata before the
    first batch, and again before every batch if the table has changed. Raises TemporaryError if files are left. Then
    the plan stays pending, and the next run goes through its list again.
    """
    seen, tried, left = "", list[DeletableFile](), list[str]()
    gone: Counter[FileKind] = Counter()

    def check() -> None:
        left.extend(still_there(table, (file.path for file in tried))[: _TOLD - len(left)])
        tried.clear()

    for batch in _batches(suspects.files()):
        if table.refreshed() != seen:
            metadata = table.metadata()
            require_permission(metadata)
            with lost_if_unmoved(table, metadata):
                spare(metadata)
            seen = metadata.file
        to_delete = [file for file in batch if file.path in suspects]
        delete_paths(table, [file.path for file in to_delete])
        tried += to_delete
        gone.update(file.kind for file in to_delete)
        points.reach(Point.DELETING, run=table.assignment.run, service=table.assignment.service)
        if len(tried) >= _CHECKED:
            check()
    check()
    if left:
        several = f"{len(left)}{' or more' if len(left) == _TOLD else ''}"
        raise TemporaryError(f"{several} of {gone.total()} files could not be deleted, {left[0]} among them")
    return {kind.value: gone[kind] for kind in FileKind}


def still_there(table: OpenTable, paths: Iterable[str]) -> list[str]:
    """Return those of the files that their store still has. A FileIO may hide failures, or only count them.

    Raises TemporaryError if the store does not tell.
    """
    spelling, folders = Spelling(), dict[str, dict[str, str]]()
    for path in paths:
        folder, _, name = (by_key(path) or spelling(path)).rpartition("/")
        folders.setdefault(folder, {})[name] = path
    left: list[str] = []
    for folder, names in folders.items():
        left += [names[name] for name in table.storage.present(folder, names)]
    return left


def _batches(files: Iterable[DeletableFile]) -> Iterator[Sequence[DeletableFile]]:
    """Yield files of one kind at a time, in batches of a limited size."""
    for _, alike in itertools.groupby(files, key=lambda file: file.kind):
        while batch := list(itertools.islice(alike, _BATCH)):
            yield batch


def delete_paths(table: OpenTable, paths: Sequence[str]) -> None:
    """Ask the table's FileIO to delete files, in bulk if it can. A listing shows the files that it could not delete.

    If S3FileIO fails in bulk, each file is deleted by itself: in bulk it takes the credentials of the bucket, and a
    catalog may hand out credentials for the folder of the table alone (Iceberg 1.11, run).
    """
    if not paths:
        return
    gateway, io = table.spark.sparkContext._gateway, table.java.io()  # noqa: SLF001 - pyspark's own access to py4j
    with translated(Step.EXECUTE):
        if is_instance_of(gateway, io, "org.apache.iceberg.io.SupportsBulkOperations"):
            to_delete = table.jvm.java.util.ArrayList()
            for path in paths:
                to_delete.add(path)
            if _tolerantly(lambda: io.deleteFiles(to_delete)) or str(io.getClass().getName()) != _S3_FILE_IO:
                return
        for path in paths:
            _tolerantly(functools.partial(io.deleteFile, path))


def _tolerantly(call: Callable[[], None]) -> bool:
    """Return whether the call succeeded."""
    try:
        call()
    except Py4JJavaError as error:
        log.warning("files_not_deleted", reason=str(error.java_exception.toString()))
        return False
    return True
