"""Writes buckets anew, several at a time, in threads of the worker's JVM. Nothing of it is committed."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from lakewarden.executors import cancellations
from lakewarden.executors.programs.paimon.client.errors import on_the_way_out, translated
from lakewarden.executors.programs.paimon.client.opened import OpenTable
from lakewarden.executors.programs.tasks import carry_out
from lakewarden.planners.formats.paimon.backlog.buckets import Bucket
from lakewarden.planners.formats.paimon.metadata.snapshots import BATCH
from lakewarden.planners.formats.paimon.options.core_options import BucketMode
from lakewarden.planners.model.errors import NotYetError
from lakewarden.planners.model.step import Step

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
        cancellations.require_wanted(self._table.assignment.run)
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
                cancellations.require_wanted(self._table.assignment.run)
                self._keep([task.doCompact(self._java, write)])
        finally:
            with on_the_way_out("close the writer of a partition"):
                write.close()

    def _keep(self, messages: Any) -> None:
        self.messages.extend(one for one in messages if not one.isEmpty())

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
            before = {str(one.fileName()) for one in made.compactBefore()}
            paths = factory.createDataFilePathFactory(message.partition(), message.bucket())
            for one in (*made.compactAfter(), *made.changelogFiles()):
                if str(one.fileName()) not in before:
                    for extra in one.extraFiles():
                        files.deleteQuietly(paths.toAlignedPath(extra, one))
                    files.deleteQuietly(paths.toPath(one))
