"""Keys that a compaction drops, and that a writer has written again since its plan, as Hudi's JVM tells them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakewarden.executors.programs.hudi.client.write_client import HudiClient, logs_since
from lakewarden.planners.formats.hudi.metadata.plans import DataFile

_KEY = "_hoodie_record_key"
_PARTITION = "_hoodie_partition_path"
_PARQUET = ".parquet"
_WITH_META_FIELDS = True
_FORWARDS = False  # the parameter asks whether to read backwards
_WHOLE = False
_MEMORY_BYTES = 256 * 2**20
_BUFFER_BYTES = 2**20


@dataclass(frozen=True, kw_only=True, slots=True)
class NewBase:
    """The new base file of a file group from which a compaction has dropped rows. `path` is below the table."""

    partition: str
    file_id: str
    path: str


def with_dropped_rows(statuses: Any) -> Sequence[NewBase]:
    """Return the new base files of a compaction that lack rows of the old ones (`HoodieWriteStat.getNumDeletes`)."""
    stats = (status.getStat() for status in statuses.collect())
    return tuple(
        NewBase(partition=str(stat.getPartitionPath()), file_id=str(stat.getFileId()), path=str(stat.getPath()))
        for stat in stats
        if int(stat.getNumDeletes()) > 0
    )


def has_keys_in_parquet(client: HudiClient) -> bool:
    """Whether the base files are Parquet files with the meta column of the keys (`hoodie.populate.meta.fields`)."""
    settings = client.table().getMetaClient().getTableConfig()
    return bool(settings.populateMetaFields()) and str(settings.getBaseFileFormat()) == "PARQUET"


class DroppedKeys:
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
        return self._client.session.read.parquet(*paths).select(_PARTITION, _KEY)


def written_since(client: HudiClient, instant: str, groups: Sequence[NewBase]) -> Mapping[NewBase, Mapping[str, int]]:
    """Return the log files that the compaction `instant` does not merge, with their lengths, by file group. Hudi shows
    them in a file slice of the compaction's time, as long as the compaction is pending.
    """
    view = client.table().getSliceView()
    return {group: logs_since(view.getLatestFileSlice(group.partition, group.file_id), instant) for group in groups}


def returned_key(client: HudiClient, logs: Collection[str], dropped: Any) -> str | None:
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
