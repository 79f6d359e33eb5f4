"""Deleted keys that come back while a compaction is under way.

The indexes SIMPLE and BLOOM, which are Spark's defaults, look for keys in base files only. Between the plan of a
compaction and its commit they find a deleted key in the old base file, and the writer appends its new row to that file
group's log. Once the compaction is committed, the new base file lacks the key. The next write of the key does not find
it, and inserts it into another file group. From then on it is there twice (docs/hudi.md; run on Hudi alone).

So a compaction that drops rows is committed while the table's lock is held. It leaves out each file group with a
dropped key that has a row in a log file which the compaction does not merge, and each one that a write in flight may
touch. Such a file group stays as it was, and the next compaction takes the row in. Below table version 8 nothing can be
left out: its newer log files bear the time of the plan, and no reader sees them without a base file of that time (run).
There the run waits for the writes in flight, and an operator has to pause the writers if a key has come back.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from lakewarden.executors.programs.hudi.client.errors import translated
from lakewarden.executors.programs.hudi.client.opened import OpenTable
from lakewarden.executors.programs.hudi.client.write_client import (
    LOG_FILES_BEAR_THEIR_COMMITS_FROM,
    HudiClient,
    logs_since,
)
from lakewarden.executors.programs.hudi.steps.listings import alone_between_writes
from lakewarden.planners.formats.hudi.metadata.plans import DataFile
from lakewarden.planners.formats.hudi.writers.activity import how_to_end, meeting
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Instant, Step

_KEY = "_hoodie_record_key"
_PARTITION = "_hoodie_partition_path"
_PARQUET = ".parquet"
_WITH_META_FIELDS = True
_FORWARDS = False  # the parameter asks whether to read backwards
_WHOLE = False
_MEMORY_BYTES = 256 * 2**20
_BUFFER_BYTES = 2**20

_UNTIL_A_GAP = timedelta(seconds=30)

Figures = Mapping[str, int | float | str]


@dataclass(frozen=True, kw_only=True, slots=True)
class NewBase:
    """The new base file of a file group from which a compaction has dropped rows. `path` is below the table."""

    partition: str
    file_id: str
    path: str


def commit_without_returning_keys(
    table: OpenTable,
    instant: str,
    statuses: Any,
    compacted: Collection[DataFile],
    commit: Callable[[Collection[NewBase]], Figures],
) -> Figures:
    """Commit a compaction after its new files are written. `commit` is called under the table's lock, with the file
    groups that it leaves out.

    Below table version 8 it leaves out none: raises YieldError if there is no moment without a write that may touch
    their partitions, and PermanentError if a dropped key has come back.
    """
    with translated(Step.COMMIT):
        groups = _with_dropped_rows(statuses) if table.options.looks_for_returning_keys else ()
    if not groups:
        with table.alone():
            return commit(())
    with translated(Step.COMMIT):
        dropped = _DroppedKeys(table.client, groups, compacted) if _has_keys_in_parquet(table.client) else None
    with contextlib.nullcontext() if dropped is None else contextlib.closing(dropped):
        search = _Search(table, instant, groups, dropped)
        returned = search.run()  # most of the log files are read before the lock is taken
        whole = table.client.table_version < LOG_FILES_BEAR_THEIR_COMMITS_FROM
        if whole and returned:
            raise _not_left_out(table, returned)
        partitions = {group.partition for group in groups if group not in returned}
        with alone_between_writes(
            table,
            lambda view: meeting(view.writers, partitions, view.observed_at),
            why=_why if whole else None,
            within=_UNTIL_A_GAP,
        ) as view:
            returned = search.run()
            if whole and returned:
                raise _not_left_out(table, returned)
            return commit(
                [
                    group
                    for group in groups
                    if group in returned or meeting(view.writers, {group.partition}, view.observed_at)
                ]
            )


def _not_left_out(table: OpenTable, returned: Mapping[NewBase, str]) -> PermanentError:
    return PermanentError(
        f"{_HAZARD}, and {next(iter(returned.values()))} was written again since its plan, which no other plan can "
        f"replace in a table of version {table.client.table_version}: stop the writers, declare "
        "options.returning_keys: trusted, release the service (lakewarden quarantine release "
        f"{table.assignment.table} compaction), and run compactions until there is nothing to compact; then set it to "
        "checked, and start them"
    )


def _why(write: Instant) -> str:
    """Return why the commit waits for a write in flight, and what an operator does."""
    index = "" if write.guarded_until is None else f"; or {_OTHER_INDEX}"
    return f"{_HAZARD}, and write {write.time} in flight may bring one back: {how_to_end(write)}{index}"


_HAZARD = "the compaction drops deleted rows"
_OTHER_INDEX = "give all writers another index, and declare it (options.returning_keys)"


class _Search:
    """Looks for dropped keys in the log files of the file groups. It reads each log file once. If the keys are not
    known, each of the log files may have one.
    """

    def __init__(self, table: OpenTable, instant: str, groups: Sequence[NewBase], dropped: _DroppedKeys | None) -> None:
        self._table = table
        self._instant = instant
        self._groups = groups
        self._dropped = dropped
        self._logs: set[tuple[str, int]] = set()
        self._returned: dict[NewBase, str] = {}

    def run(self) -> Mapping[NewBase, str]:
        """Return in words what was written again, by file group, by the log files that there are now."""
        client = self._table.client
        with translated(Step.COMMIT):
            for group, logs in _written_since(client, self._instant, self._groups).items():
                new = [path for path, length in logs.items() if (path, length) not in self._logs]
                if group in self._returned or not new:
                    continue
                if self._dropped is None:
                    self._returned[group] = f"perhaps one of their keys (file group {group.file_id!r} stores none)"
                elif (key := _returned_key(client, new, self._dropped.of(group.partition))) is not None:
                    self._returned[group] = f"key {key!r}"
                self._logs |= logs.items()
        return self._returned


# Keys that a compaction drops, and that a writer has written again since its plan, as Hudi's JVM tells them.


def _with_dropped_rows(statuses: Any) -> Sequence[NewBase]:
    """Return the new base files of a compaction that lack rows of the old ones (`HoodieWriteStat.getNumDeletes`)."""
    stats = (status.getStat() for status in statuses.collect())
    return tuple(
        NewBase(partition=str(stat.getPartitionPath()), file_id=str(stat.getFileId()), path=str(stat.getPath()))
        for stat in stats
        if int(stat.getNumDeletes()) > 0
    )


def _has_keys_in_parquet(client: HudiClient) -> bool:
    """Whether the base files are Parquet files with the meta column of the keys (`hoodie.populate.meta.fields`)."""
    settings = client.table().getMetaClient().getTableConfig()
    return bool(settings.populateMetaFields()) and str(settings.getBaseFileFormat()) == "PARQUET"


class _DroppedKeys:
    """The keys in the old base files and not in the new ones, by partition. To be closed."""

    def __init__(self, client: HudiClient, new: Sequence[NewBase], compacted: Collection[DataFile]) -> None:
        """Read the keys of the old and new base files, as Spark jobs. Raises Py4JJavaError."""
        self._client = client
        groups = {(base.partition, base.file_id) for base in new}
        old = [
            f"{file.partition}/{file.name}"
            for file in compacted
            if file.name.endswith(_PARQUET) and (file.partition, file.name.partition("_")[0]) in groups
        ]
        self._keys = self._read(old).join(self._read([base.path for base in new]), [_PARTITION, _KEY], "left_anti")
        self._keys.persist()
        self._of: dict[str, Any] = {}

    def of(self, partition: str) -> Any:
        """Return the keys of a partition, as a `java.util.List`."""
        if partition not in self._of:
            keys = self._keys.where(self._keys[_PARTITION] == partition).select(_KEY)
            encoder = self._client.jvm.org.apache.spark.sql.Encoders.STRING()
            self._of[partition] = getattr(keys._jdf, "as")(encoder).collectAsList()  # noqa: SLF001 - pyspark makes rows of them
        return self._of[partition]

    def close(self) -> None:
        """Free what is kept."""
        self._keys.unpersist()

    def _read(self, files: Sequence[str]) -> Any:
        paths = [f"{self._client.base}/{file}" for file in files]
        return self._client.session.read.schema(f"{_PARTITION} string, {_KEY} string").parquet(*paths)


def _written_since(client: HudiClient, instant: str, groups: Sequence[NewBase]) -> Mapping[NewBase, Mapping[str, int]]:
    """Return the log files that the compaction `instant` does not merge, with their lengths, by file group. Hudi shows
    them in a file slice of the compaction's time, as long as the compaction is pending.
    """
    view = client.table().getSliceView()
    return {group: logs_since(view.getLatestFileSlice(group.partition, group.file_id), instant) for group in groups}


def _returned_key(client: HudiClient, logs: Collection[str], dropped: Any) -> str | None:
    """Return one of the `dropped` keys for which the committed blocks of these log files of a file group have a row.
    None if there is none, or if the newest block with the key deletes it.
    """
    if not logs or dropped.isEmpty():
        return None
    meta = client.table().getMetaClient()
    schema = client.hudi.common.table.TableSchemaResolver(meta).getTableSchema(_WITH_META_FIELDS)
    properties = meta.getTableConfig().getProps()
    deletes = client.hudi.common.table.read.DeleteContext.fromRecordSchema(properties, schema)
    scanner = _scanner(client, meta, sorted(logs), schema)
    try:
        scanner.scanByFullKeys(dropped)
        records = scanner.getRecords()  # the rows of the keys, and every delete
        keys = client.jvm.java.util.HashSet(records.keySet())
        keys.retainAll(client.jvm.java.util.HashSet(dropped))
        return next((str(key) for key in keys if not records.get(key).isDelete(deletes, properties)), None)
    finally:
        scanner.close()


def _scanner(client: HudiClient, meta: Any, logs: Sequence[str], schema: Any) -> Any:
    settings = client.java.getConfig()
    spilling = settings.getCommonConfig()
    newest = meta.getActiveTimeline().filterCompletedInstants().lastInstant().get()
    return (
        client.hudi.common.table.log.HoodieMergedLogRecordScanner.newBuilder()
        .withStorage(meta.getStorage())
        .withBasePath(meta.getBasePath())
        .withLogFilePaths(client.java_list(logs))
        .withReaderSchema(schema)
        .withLatestInstantTime(str(newest.requestedTime()))
        .withReverseReader(_FORWARDS)
        .withBufferSize(_BUFFER_BYTES)
        .withMaxMemorySizeInBytes(_MEMORY_BYTES)
        .withSpillableMapBasePath(settings.getSpillableMapBasePath())
        .withDiskMapType(spilling.getSpillableDiskMapType())
        .withBitCaskDiskMapCompressionEnabled(spilling.isBitCaskDiskMapCompressionEnabled())
        .withRecordMerger(settings.getRecordMerger())
        .withTableMetaClient(meta)
        .withForceFullScan(_WHOLE)
        .build()
    )
