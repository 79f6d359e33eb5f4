"""The options of a Hudi table, in Hudi's own terms."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.settings import Duration, Settings, Within
from lakewarden.planners.storage.locations import spelled_location


class ZookeeperLock(Settings):
    """`ZookeeperBasedLockProvider`: the lock of production tables."""

    provider: Literal["zookeeper"]

    url: str = Field(pattern=r"^[^:,\s]+:\d+(,[^:,\s]+:\d+)*$", examples=["zk1:2181,zk2:2181"])
    """ZooKeeper's `host:port`, with commas between several (`hoodie.write.lock.zookeeper.url`). The port belongs
    into the url: Hudi ignores its own `.port` key."""

    base_path: str = Field(pattern=r"^/[^/].*[^/]$|^/[^/]$", examples=["/hudi"])
    """The node below which locks are made (`hoodie.write.lock.zookeeper.base_path`)."""

    lock_key: str = Field(min_length=1)
    """The name of this table's lock below it (`hoodie.write.lock.zookeeper.lock_key`)."""


class StorageLock(Settings):
    """`StorageBasedLockProvider`: a lock file beside the table, replaced by conditional writes, on S3, GCS and Azure
    alone. Hudi has it from 1.0.2 on (Azure: 1.2), so every writer must be that new. It has no keys of its own: the
    table's address identifies the lock. A dead holder keeps it for five minutes
    (`hoodie.write.lock.storage.validity.timeout.secs`).
    """

    provider: Literal["storage"]


class DynamoDbLock(Settings):
    """`DynamoDBBasedLockProvider`: a row of a DynamoDB table, for writers on AWS."""

    provider: Literal["dynamodb"]

    table: str = Field(min_length=1)
    """The DynamoDB table that holds the locks. It is made if it is missing (`hoodie.write.lock.dynamodb.table`)."""

    partition_key: str = Field(min_length=1)
    """This table's row in it (`hoodie.write.lock.dynamodb.partition_key`). Without it Hudi would take the table's
    name, which two tables may share."""

    region: str = Field(min_length=1)
    """The AWS region (`hoodie.write.lock.dynamodb.region`)."""

    billing_mode: Literal["PAY_PER_REQUEST", "PROVISIONED"] = "PAY_PER_REQUEST"
    """How a table that has to be made is paid for (`hoodie.write.lock.dynamodb.billing_mode`)."""

    endpoint_url: str | None = None
    """Another endpoint than the region's own (`hoodie.write.lock.dynamodb.endpoint_url`)."""


class HiveLock(Settings):
    """`HiveMetastoreBasedLockProvider`: an exclusive lock on a table of a Hive metastore. The metastore's lock manager
    must be switched on.
    """

    provider: Literal["hive"]

    database: str = Field(min_length=1)
    """The Hive database (`hoodie.write.lock.hivemetastore.database`)."""

    table: str = Field(min_length=1)
    """The Hive table that is locked (`hoodie.write.lock.hivemetastore.table`)."""

    uris: str = Field(pattern=r"^thrift://[^,\s]+(,thrift://[^,\s]+)*$", examples=["thrift://metastore:9083"])
    """The metastore's address, `thrift://host:9083`, with commas between several
    (`hoodie.write.lock.hivemetastore.uris`)."""


class FilesystemLock(Settings):
    """`FileSystemBasedLockProvider`: for trials. It is not exclusive: a client that times out deletes its holder's
    lock (docs/hudi.md), so a table under it carries a warning.
    """

    provider: Literal["filesystem"]

    path: str | None = None
    """The folder of the lock file (`hoodie.write.lock.filesystem.path`); by default the table's `.hoodie`."""


Lock = Annotated[
    ZookeeperLock | StorageLock | DynamoDbLock | HiveLock | FilesystemLock, Field(discriminator="provider")
]


class BucketIndex(StrEnum):
    """Which bucket index the writers of a table use (`hoodie.index.bucket.engine`)."""

    SIMPLE = "simple"
    CONSISTENT_HASHING = "consistent_hashing"


class Buckets(Settings):
    """The bucket index of the table's writers. Its file groups are buckets of keys, so a clustering by size would
    destroy it. With consistent hashing a clustering splits and merges buckets instead. With any other there is none.
    """

    engine: BucketIndex
    """`hoodie.index.bucket.engine` of the writers, in small letters."""

    hash_fields: tuple[str, ...] = ()
    """`hoodie.bucket.index.hash.field` of the writers, if it is set; by default the record's key."""

    min_buckets: Annotated[int, Within(1, 1_000_000)] = 1
    """Buckets of a partition are not merged below this number (`hoodie.bucket.index.min.num.buckets`)."""

    max_buckets: Annotated[int, Within(1, 1_000_000)] = 256
    """Buckets of a partition are not split beyond this number (`hoodie.bucket.index.max.num.buckets`)."""

    @model_validator(mode="after")
    def _in_order(self) -> Buckets:
        if self.min_buckets > self.max_buckets:
            raise ValueError(f"min_buckets: {self.min_buckets} must not be above max_buckets: {self.max_buckets}")
        return self


class IncrementalReader(Settings):
    """A reader of the table's new rows, from a position of its own on: an incremental query that comes back, or a
    stream. Commits that it has not read yet are neither cleaned nor archived. Set how far behind it may be, or where
    its position is kept.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")
    """Its name in messages."""

    longest_lag: Annotated[Duration, Within("1m", "3650d")] | None = None
    """It is never further behind than this. A reader that was stopped for longer may miss files, and fails."""

    checkpoint: str | None = Field(default=None, min_length=1)
    """The checkpoint folder (`checkpointLocation`) of its query of Spark's Structured Streaming, in the table's own
    store."""

    position: str | None = Field(default=None, min_length=1)
    """A file in the table's own store that holds one instant: the reader has read everything up to it. On table
    versions from 8 on it is a completion time, as Hudi's own readers count."""

    @field_validator("checkpoint", "position")
    @classmethod
    def _is_a_place(cls, place: str | None) -> str | None:
        try:
            return None if place is None else spelled_location(place)
        except PermanentError as no_place:
            raise ValueError(str(no_place)) from no_place

    @model_validator(mode="after")
    def _is_somewhere(self) -> IncrementalReader:
        if sum(setting is not None for setting in (self.longest_lag, self.checkpoint, self.position)) != 1:
            raise ValueError(f"reader {self.name} needs one of longest_lag, checkpoint and position")
        return self


class HudiTableOptions(Settings):
    """The facts about a Hudi table that Lakewarden needs and the table itself does not say."""

    lock: Lock | None = None
    """The lock that the table's writers use: the same provider with the same keys. Without it, and unless
    `writers` is `none`, nothing runs on the table: services beside an unlocked writer lose acknowledged updates."""

    lock_proof: Literal["observed", "trusted"] = "observed"
    """`observed`: nothing runs beside live writers before Lakewarden has seen that they take this lock. `trusted`
    declares that they do, and nothing is checked. Then one wrong letter in a writer's options loses acknowledged
    updates silently. It is for locks that leave no trace when they are taken, as those of DynamoDB and Hive."""

    writers: Literal["live", "none"] = "live"
    """`none` declares that the table has no writers while Lakewarden serves it. They may write before and after."""

    concurrency: Literal["optimistic", "non_blocking"] = "optimistic"
    """How writers keep apart (`hoodie.write.concurrency.mode`). `non_blocking` declares that all of them have
    NON_BLOCKING_CONCURRENCY_CONTROL (Hudi 1.0 and later, simple bucket index, merge-on-read): then compaction waits for
    no write. It is believed as long as the writers' file groups are buckets that such writers have made."""

    failed_writes: Literal["lazy"] | None = None
    """`lazy` declares that every writer of the table has `hoodie.clean.failed.writes.policy=LAZY`, which its lock
    requires and `writer-options` prints. Then a write without a heartbeat is dead within minutes, even if it was never
    seen with one. A writer that is not LAZY would be rolled back alive."""

    dead_after: Annotated[Duration, Within("2m", "365d")] = Field(default="15m", validate_default=True)
    """A write counts as dead when its heartbeat has been silent for this long. `rollback` and `clean` undo it then. A
    writer that pauses for longer would be rolled back alive. Keep it well above the writers' own heartbeat window (two
    minutes by default, which is the least)."""

    timeline_timezone: str | None = None
    """The zone in which the table's writers stamp instants. It is for tables with modification times of files that do
    not prove the zone (a copied table). It must be the zone of the `spark` profile."""
    bucket_index: Buckets | None = None
    """The bucket index of the table's writers, if they use one."""

    returning_keys: Literal["checked", "trusted"] = "checked"
    """What a compaction does about deleted keys that are written again while it is under way. The indexes SIMPLE and
    BLOOM, which are Spark's defaults, look for keys in base files only. Such a key would then be there twice.
    `checked`: a compaction leaves out the file groups in which a key that it drops has come back, or may come back by
    a write in flight. Below table version 8 it waits, and fails if a key has come back. `trusted` declares that every
    writer has the index RECORD_INDEX, GLOBAL_SIMPLE, GLOBAL_BLOOM or Flink's state, or that no deleted key ever
    returns. Then nothing is checked. Declare a new index only after the first compaction that was planned with it. A
    declared `bucket_index` is trusted, too. The names of buckets alone are not, because another writer may have
    another index."""

    readers: tuple[IncrementalReader, ...] = Field(default=(), max_length=100)
    """The table's incremental readers. Clean and archive keep what the slowest of them has not read yet. If a position
    cannot be read, neither of them runs."""

    conf: dict[str, str] = Field(default_factory=dict)
    """Further `hoodie.*` options for Hudi's client in the workers. Lakewarden itself sets the keys that guard the
    table."""

    @model_validator(mode="after")
    def _possible(self) -> HudiTableOptions:
        if self.concurrency == "non_blocking" and self.declared_index is not BucketIndex.SIMPLE:
            raise ValueError("concurrency: non_blocking needs bucket_index: {engine: simple}, or no bucket_index")
        return self

    @property
    def looks_for_returning_keys(self) -> bool:
        """Whether a compaction looks for deleted keys that are written again."""
        return self.returning_keys == "checked" and self.declared_index is None

    @property
    def declared_index(self) -> BucketIndex | None:
        """The bucket index that the owner declares. Writers without blocking have a simple one."""
        if self.bucket_index is not None:
            return self.bucket_index.engine
        return BucketIndex.SIMPLE if self.concurrency == "non_blocking" else None


# Keys that Lakewarden sets itself on its write client, and the setting with the same meaning in the configuration.
#
# A user's value under such a key would be overridden silently. A test compares the list with the keys that the programs
# set (`executors/programs/hudi`).

_ALONE = ""
"""There is no setting: Lakewarden has to set the key as it does."""

_EXACTLY: Mapping[str, str] = {
    "hoodie.compaction.target.io": "services.compaction.options.target_io_mb",
    "hoodie.clean.policy": "services.clean.options.policy",
    "hoodie.cleaner.policy": "services.clean.options.policy",
    "hoodie.clean.commits.retained": "services.clean.options.commits_retained",
    "hoodie.cleaner.commits.retained": "services.clean.options.commits_retained",
    "hoodie.clean.fileversions.retained": "services.clean.options.file_versions_retained",
    "hoodie.cleaner.fileversions.retained": "services.clean.options.file_versions_retained",
    "hoodie.clean.hours.retained": "services.clean.options.hours_retained",
    "hoodie.cleaner.hours.retained": "services.clean.options.hours_retained",
    "hoodie.clean.incremental.enabled": "services.clean.options.incremental",
    "hoodie.cleaner.incremental.mode": "services.clean.options.incremental",
    "hoodie.clean.max.commits.to.clean": "services.clean.options.max_commits_to_clean",
    "hoodie.clean.trigger.strategy": "services.clean.trigger",
    "hoodie.clean.trigger.max.commits": "services.clean.trigger",
    "hoodie.compact.inline.trigger.strategy": "services.compaction.trigger",
    "hoodie.compact.inline.max.delta.commits": "services.compaction.trigger",
    "hoodie.compact.inline.max.delta.seconds": "services.compaction.trigger",
    "hoodie.log.compaction.blocks.threshold": "services.log_compaction.options.log_blocks_threshold",
    "hoodie.clustering.plan.strategy.sort.columns": "services.clustering.options.sort_columns",
    "hoodie.layout.optimize.strategy": "services.clustering.options.layout",
    "hoodie.clustering.plan.strategy.small.file.limit": "services.clustering.options.small_file_limit",
    "hoodie.clustering.plan.strategy.target.file.max.bytes": "services.clustering.options.target_file_max_bytes",
    "hoodie.clustering.plan.strategy.max.bytes.per.group": "services.clustering.options.max_bytes_per_group",
    "hoodie.clustering.plan.strategy.max.num.groups": "services.clustering.options.max_num_groups",
    "hoodie.clustering.plan.strategy.partition.regex.pattern": "services.clustering.options.partition_regex",
    "hoodie.clustering.plan.strategy.partition.selected": "services.clustering.options.partition_regex",
    "hoodie.clustering.plan.strategy.single.group.clustering.enabled": _ALONE,
    "hoodie.clustering.plan.partition.filter.mode": _ALONE,
    "hoodie.clustering.fail.on.pending.ingestion.during.conflict.resolution": _ALONE,
    "hoodie.keep.min.commits": "services.archive.options.keep_min_commits",
    "hoodie.keep.max.commits": "services.archive.options.keep_max_commits",
    "hoodie.archive.beyond.savepoint": _ALONE,
    "hoodie.partition.ttl.inline": "services.ttl",
    "hoodie.clean.automatic": "services.clean",
    "hoodie.clean.async": "services.clean",
    "hoodie.clean.async.enabled": "services.clean",
    "hoodie.archive.automatic": "services.archive",
    "hoodie.archive.async": "services.archive",
    "hoodie.compact.inline": "services.compaction",
    "hoodie.compact.schedule.inline": "services.compaction",
    "hoodie.log.compaction.inline": "services.log_compaction",
    "hoodie.log.compaction.enable": "services.log_compaction",
    "hoodie.clustering.inline": "services.clustering",
    "hoodie.clustering.schedule.inline": "services.clustering",
    "hoodie.clustering.async.enabled": "services.clustering",
    "hoodie.clean.failed.writes.policy": _ALONE,
    "hoodie.cleaner.policy.failed.writes": _ALONE,
    "hoodie.rollback.avoid.duplicate.plan": _ALONE,
    "hoodie.datasource.write.recordkey.field": _ALONE,
    "hoodie.datasource.write.partitionpath.field": _ALONE,
    "hoodie.index.type": "options.bucket_index",
    "hoodie.index.bucket.engine": "options.bucket_index",
    "hoodie.bucket.index.hash.field": "options.bucket_index.hash_fields",
    "hoodie.bucket.index.num.buckets": "options.bucket_index.min_buckets",
    "hoodie.bucket.index.min.num.buckets": "options.bucket_index.min_buckets",
    "hoodie.bucket.index.max.num.buckets": "options.bucket_index.max_buckets",
    "hoodie.write.concurrency.mode": _ALONE,
    "hoodie.write.auto.upgrade": _ALONE,
    "hoodie.write.complex.keygen.validation.enable": _ALONE,
    "hoodie.write.table.version": _ALONE,
    "hoodie.write.markers.type": _ALONE,
    "hoodie.write.commit.callback.on": _ALONE,
    "hoodie.write.empty.clean.interval.hours": _ALONE,
    "hoodie.embed.timeline.server": _ALONE,
    "hoodie.metrics.on": _ALONE,
    "hoodie.metadata.enable": _ALONE,
    "hoodie.metadata.auto.delete.partitions": _ALONE,
    "hoodie.metadata.max.reader.buffer.size": _ALONE,
    "hoodie.metadata.streaming.write.enabled": _ALONE,
    "hoodie.metadata.global.record.level.index.enable": _ALONE,
    "hoodie.metadata.record.level.index.enable": _ALONE,
    "hoodie.metadata.index.column.stats.enable": _ALONE,
    "hoodie.metadata.index.partition.stats.enable": _ALONE,
    "hoodie.metadata.index.bloom.filter.enable": _ALONE,
    "hoodie.metadata.index.expression.enable": _ALONE,
    "hoodie.metadata.index.async": _ALONE,
}

_BELOW: Mapping[str, str] = {
    "hoodie.write.lock.": "options.lock",
    "hoodie.client.heartbeat.": _ALONE,
    "hoodie.table.": _ALONE,  # services and properties
}


def why_not(key: str) -> str | None:
    """Return why a key cannot stand in a table's `options.conf`, and what to use instead; None if it can."""
    if not key.startswith("hoodie."):
        return f"{_not_hudis(key)}: only hoodie.* options of Hudi's write client stand here"
    instead = _EXACTLY.get(key)
    if instead is None:
        instead = next((setting for start, setting in _BELOW.items() if key.startswith(start)), None)
    if instead is None:
        return None
    return f"Lakewarden sets this itself: {f'use {instead} instead' if instead else 'remove it'}"


def _not_hudis(key: str) -> str:
    if key.startswith("spark."):
        return "belongs to spark.<profile>.conf"
    if key.startswith(("fs.", "hadoop.", "dfs.")):
        return "is Hadoop's and belongs to the hadoop properties of a store, under storage"
    return "is none of Hudi's options"
