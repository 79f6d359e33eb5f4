"""Writes buckets anew, several at a time, in threads of the worker's JVM. Nothing of it is committed."""

from __future__ import annotations

import contextlib
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakewarden.executors import points
from lakewarden.executors.programs.bracket import carry_out
from lakewarden.executors.programs.paimon.client.opened import OpenTable, on_the_way_out, translated
from lakewarden.planners.formats.paimon.backlog.compactions import Bucket
from lakewarden.planners.formats.paimon.deletion.orphans_beside import OURS
from lakewarden.planners.formats.paimon.metadata.snapshots import BATCH, Snapshot, parse_snapshot
from lakewarden.planners.formats.paimon.options.core_options import BucketMode
from lakewarden.planners.model.errors import NotYetError, PermanentError, TemporaryError, UnknownError, YieldError
from lakewarden.planners.model.instant import Step
from lakewarden.planners.storage.local import OpenFolder, open_folder
from lakewarden.planners.storage.locations import is_local

_WAITS, _STREAMING = True, False
_OLD_NUMBERS = True
"""A partition may have another number of buckets than the table has by now, and keeps it."""


class Rewriting:
    """The rewriting of some buckets. `messages` are Paimon's own commit messages. They name the files that were
    written, and those that they replace.

    After an error no further bucket is begun.
    """

    def __init__(self, table: OpenTable, buckets: Sequence[Bucket], mode: BucketMode, *, full: bool) -> None:
        self.messages: list[Any] = []
        self.failures: list[Exception] = []
        self._table = table
        self._by_tasks = mode is BucketMode.UNAWARE
        self._full = full
        self._buckets = tuple(buckets)
        with translated(Step.PLAN):
            self._java = table.compacting()

    def carry_out(self, *, at_a_time: int) -> None:
        """Write the buckets. Return when no thread is writing any more."""
        self.failures = carry_out(self._buckets, self._write, at_a_time=at_a_time, stops=lambda _: True).failures

    def _write(self, bucket: Bucket) -> None:
        points.require_wanted(self._table.assignment.run)
        with contextlib.suppress(NotYetError), translated(Step.EXECUTE):
            (self._append if self._by_tasks else self._merge)(bucket)

    def _merge(self, bucket: Bucket) -> None:
        """Compact one bucket of a table that has them."""
        write = self._java.newWrite(self._table.user)
        try:
            write.getWrite().withIgnoreNumBucketCheck(_OLD_NUMBERS)
            write.withIOManager(self._table.paimon.disk.IOManager.create(str(self._table.scratch)))
            write.compact(self._partition(bucket), bucket.number, self._full)
            self._keep(write.prepareCommit(_WAITS, BATCH))
        finally:
            with on_the_way_out("close the writer of a bucket"):
                write.close()

    def _append(self, bucket: Bucket) -> None:
        """Compact one partition of a table without buckets, by the tasks of Paimon's own coordinator."""
        sink = self._table.paimon.append
        rows = self._table.jvm.java.util.ArrayList()
        rows.add(self._partition(bucket))
        keys = self._java.schema().logicalPartitionType()
        only = self._table.paimon.partition.PartitionPredicate.fromMultiple(keys, rows)
        write = self._java.store().newWrite(self._table.user)
        try:
            for task in sink.AppendCompactCoordinator(self._java, _STREAMING, only).run():
                points.require_wanted(self._table.assignment.run)
                self._keep([task.doCompact(self._java, write)])
        finally:
            with on_the_way_out("close the writer of a partition"):
                write.close()

    def _keep(self, messages: Any) -> None:
        self.messages.extend(message for message in messages if not message.isEmpty())

    def _partition(self, bucket: Bucket) -> Any:
        return self._table.paimon.utils.SerializationUtils.deserializeBinaryRow(bucket.partition)


def discard(table: OpenTable, messages: Sequence[Any]) -> None:
    """Delete the files that were written for commit messages that no snapshot names.

    Paimon's own `abort` deletes every file after a compaction. A file that only moves to another level is one of them,
    and a reader of the table needs it.
    """
    factory = table.java.store().pathFactory()
    files = table.java.fileIO()
    for message in messages:
        with on_the_way_out("delete what was written"):
            made = message.compactIncrement()
            before = {str(file.fileName()) for file in made.compactBefore()}
            paths = factory.createDataFilePathFactory(message.partition(), message.bucket())
            for file in (*made.compactAfter(), *made.changelogFiles()):
                if str(file.fileName()) not in before:
                    for extra in file.extraFiles():
                        files.deleteQuietly(paths.toAlignedPath(extra, file))
                    files.deleteQuietly(paths.toPath(file))


# Makes a snapshot as Paimon does, without giving it to the table.
#
# `FileStoreCommitImpl` checks a commit against the newest snapshot, and writes its manifests. The last act is to rename
# the file of the snapshot into its place. Paimon's own rename on disks looks whether the place is free, and then
# replaces whatever is there by then: two programs that commit at the same moment can lose the commit of one. So Paimon
# is given a folder of the worker for the last act.
#
# Source: `org.apache.paimon.AbstractFileStore.newCommit`, `operation.FileStoreCommitImpl`,
# `catalog.RenamingSnapshotCommit` and `fs.local.LocalFileIO.rename` of Paimon 1.3.1.

_YES, _NO = True, False


@dataclass(frozen=True, kw_only=True, slots=True)
class Proposal:
    """A snapshot that is written and that the table does not have: its file, and what that says."""

    content: bytes
    snapshot: Snapshot


def propose(table: OpenTable, messages: Sequence[Any]) -> Proposal:
    """Return the snapshot that commits the messages after the newest one of the table.

    Raises YieldError if another program has taken away files that were compacted. Nothing is committed in any case.
    """

    def commit(client: Any) -> None:
        committable = table.paimon.manifest.ManifestCommittable(BATCH)
        for message in messages:
            committable.addFileCommittable(message)
        client.ignoreEmptyCommit(_YES)
        client.commit(committable, _NO)

    return _proposed(table, commit)


def propose_drop(table: OpenTable, partitions: Sequence[Mapping[str, str]]) -> Proposal:
    """Return the snapshot that drops partitions from the newest one of the table. Each is named by the values of its
    columns. Nothing is committed.
    """

    def commit(client: Any) -> None:
        named = table.jvm.java.util.ArrayList()
        for partition in partitions:
            values = table.jvm.java.util.HashMap()
            for column, value in partition.items():
                values.put(column, value)
            named.add(values)
        client.dropPartitions(named, BATCH)

    return _proposed(table, commit)


def propose_merge(table: OpenTable) -> Proposal:
    """Return the snapshot that has the files of the newest one in fewer manifests. Nothing is committed.

    Source: `FileStoreCommitImpl.compactManifestOnce` of Paimon 1.3.1: it merges manifests that are smaller than
    `manifest.target-file-size` or delete files. Raises YieldError if there is nothing to merge any more.
    """
    return _proposed(table, lambda client: client.compactManifest())


def _proposed(table: OpenTable, act: Callable[[Any], None]) -> Proposal:
    folder = Path(tempfile.mkdtemp(prefix="proposal-", dir=table.scratch))
    with translated(Step.EXECUTE):
        _require_same_schema(table)
        commit = _committing(table, folder)
        try:
            act(commit)
        finally:
            commit.close()
    files = sorted(folder.glob("snapshot/snapshot-*"))
    if not files:
        raise YieldError("Paimon finds nothing to commit any more: a writer was faster")
    if len(files) != 1:
        raise PermanentError(f"Paimon made {len(files)} snapshots of one commit, and none of them is committed")
    content = files[0].read_bytes()
    return Proposal(content=content, snapshot=parse_snapshot(content, file=str(files[0])))


def _require_same_schema(table: OpenTable) -> None:
    """Raise YieldError if the table has another schema than when it was opened, or is another table by now. The core
    would write manifests by the old one.
    """
    opened, optional = table.java.schema(), table.java.schemaManager().latest()
    if not optional.isPresent():
        raise YieldError("the table is gone: its folder has no schema any more")
    newest = optional.get()
    if (newest.id(), newest.timeMillis()) != (opened.id(), opened.timeMillis()):
        raise YieldError("the table has another schema than at the beginning of the run, or is another table by now")


def _committing(table: OpenTable, folder: Path) -> Any:
    """Return what Paimon's `newCommit` returns, with another place for the snapshot."""
    java, paimon = table.java, table.paimon
    store, options = java.store(), java.coreOptions()
    place = paimon.utils.SnapshotManager(paimon.fs.local.LocalFileIO(), paimon.fs.Path(str(folder)), "main", None, None)
    return paimon.operation.FileStoreCommitImpl(
        paimon.catalog.RenamingSnapshotCommit(place, paimon.operation.Lock.empty()),
        java.fileIO(),
        java.schemaManager(),
        java.name(),
        table.user,
        store.partitionType(),
        options,
        options.partitionDefaultName(),
        store.pathFactory(),
        store.snapshotManager(),
        store.manifestFileFactory(),
        store.manifestListFactory(),
        store.indexManifestFileFactory(),
        store.newScan(),
        options.bucket(),
        options.manifestTargetSize(),
        options.manifestFullCompactionThresholdSize(),
        options.manifestMergeMinCount(),
        _NO,
        store.newKeyComparator(),
        options.branch(),
        store.newStatsFileHandler(),
        store.bucketMode(),
        options.scanManifestParallelism(),
        table.jvm.java.util.ArrayList(),
        options.commitMaxRetries(),
        options.commitTimeout(),
        options.commitMinRetryWait(),
        options.commitMaxRetryWait(),
        None,
        _NO,
        not java.schema().primaryKeys().isEmpty(),
        options.deletionVectorsEnabled(),
        store.newIndexFileHandler(),
    )


# The file of a snapshot appears whole, and in the place of no other: on a disk by a link, on S3 by a condition.
#
# Source of the hint: `SnapshotManager.commitLatestHint` and `utils.HintFileUtils` of Paimon 1.3.1: the number of the
# newest snapshot as text, in the file `LATEST`. A reader believes it if there is no snapshot of the next number.

SNAPSHOTS = "snapshot"
"""The folder of the snapshots, below that of the table."""


def require_exclusive_creation(table: OpenTable) -> None:
    """Raise PermanentError if the store may replace a file by one that is created. A file of Lakewarden proves it."""
    location = table.table.location
    if is_local(location):
        return
    conditions = table.conditions()
    probe, content = f"{location}/{OURS}/conditions", uuid.uuid4().hex.encode()
    if conditions.create(probe, content) is None:
        probe_object = conditions.versioned(probe)
        if probe_object is None or conditions.replace(probe, content, version=probe_object.version) is None:
            raise TemporaryError(f"{probe} is written by another run")


@contextlib.contextmanager
def folder_of_snapshots(table: OpenTable) -> Iterator[_OnDisk | _InStore]:
    """Open the place of the table's snapshots. On a disk it stays that of this table, also if the table is renamed."""
    if not is_local(table.table.location):
        yield _InStore(table)
        return
    with open_folder(f"{table.table.location}/{SNAPSHOTS}") as folder:
        yield _OnDisk(folder)


class _OnDisk:
    def __init__(self, folder: OpenFolder) -> None:
        self._folder = folder

    def create(self, snapshot: Snapshot, content: bytes) -> bool:
        """Let a snapshot appear. Return False if there is one of its number. Raises PermanentError and TemporaryError
        if certainly nothing was written, and UnknownError.
        """
        return self._folder.create_whole(f"snapshot-{snapshot.id}", content)

    def hint(self, snapshot: Snapshot) -> None:
        """Write Paimon's hint of the newest snapshot. It may be missing or stale. Raises TemporaryError."""
        self._folder.replace("LATEST", str(snapshot.id).encode())


class _InStore:
    def __init__(self, table: OpenTable) -> None:
        self._table = table

    def create(self, snapshot: Snapshot, content: bytes) -> bool:
        file = f"{self._table.table.location}/{SNAPSHOTS}/snapshot-{snapshot.id}"
        try:
            return self._table.conditions().create(file, content) is not None
        except TemporaryError as lost:
            raise UnknownError(str(lost)) from lost

    def hint(self, snapshot: Snapshot) -> None:
        self._table.java.snapshotManager().commitLatestHint(snapshot.id)
