"""Makes a snapshot as Paimon does, without giving it to the table.

`FileStoreCommitImpl` checks a commit against the newest snapshot, and writes its manifests. The last act is to rename
the file of the snapshot into its place. Paimon's own rename on disks looks whether the place is free, and then replaces
whatever is there by then: two programs that commit at the same moment can lose the commit of one. So Paimon is given a
folder of the worker for the last act.

Source: `org.apache.paimon.AbstractFileStore.newCommit`, `operation.FileStoreCommitImpl`,
`catalog.RenamingSnapshotCommit` and `fs.local.LocalFileIO.rename` of Paimon 1.3.1.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakewarden.executors.programs.paimon.client.errors import translated
from lakewarden.executors.programs.paimon.client.opened import OpenTable
from lakewarden.planners.formats.paimon.metadata.snapshots import BATCH, Snapshot, parse_snapshot
from lakewarden.planners.model.errors import PermanentError, YieldError
from lakewarden.planners.model.step import Step

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

    def commit(client: Any) -> None:
        client.compactManifest()

    return _proposed(table, commit)


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
    opened, found = table.java.schema(), table.java.schemaManager().latest()
    if not found.isPresent():
        raise YieldError("the table is gone: its folder has no schema any more")
    newest = found.get()
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
