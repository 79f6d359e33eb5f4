"""What whoever writes to a Hudi table sets so that Lakewarden can serve it meanwhile.

Keys that changed their name with Hudi 1.0 are given under both: each release ignores the name it does not know. Flink's
own keys are read in its `FlinkOptions` (it hands `hoodie.*` on), Structured Streaming's in `HoodieStreamingSink`, Hudi
Streamer's in `StreamSync`, which refuses an inline compaction that its flags contradict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import assert_never

from lakewarden.planners.formats.hudi.indexes.indexes import COLUMNS
from lakewarden.planners.formats.hudi.options.locks import jar_beside_the_bundle, lock_keys, patience, wait_keys
from lakewarden.planners.formats.hudi.options.service_options import IndexingOptions
from lakewarden.planners.formats.hudi.options.table_options import BucketIndex, HudiTableOptions, Lock
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Scheduling, Table
from lakewarden.planners.ports import WriterEngine, WriterOption
from lakewarden.planners.settings import format_duration

_OFF, _ON = "false", "true"

_TO_BOTH = "org.apache.hudi.client.clustering.update.strategy.SparkConsistentBucketDuplicateUpdateStrategy"
_ALLOW = "org.apache.hudi.client.clustering.update.strategy.SparkAllowUpdateStrategy"
_GIVE_WAY = "org.apache.hudi.client.transaction.PreferWriterConflictResolutionStrategy"


def writer_options(
    table: Table, *, engine: WriterEngine, hook_url: str, worst_hold: timedelta | None = None
) -> tuple[WriterOption, ...]:
    """Return the options, those with the same reason beside each other.

    Services that the table has no policy for are left to its writers. Raises PermanentError for a table whose
    writers are live and whose lock is not named.
    """
    options = table.options if isinstance(table.options, HudiTableOptions) else HudiTableOptions()
    return tuple(
        WriterOption(key=key, value=value, why=why)
        for why, keys in _groups(table, options, engine, hook_url, worst_hold)
        for key, value in keys.items()
    )


_Group = tuple[str, Mapping[str, str]]


def _groups(
    table: Table, options: HudiTableOptions, engine: WriterEngine, hook_url: str, worst_hold: timedelta | None
) -> Iterator[_Group]:
    if options.lock is not None:
        yield from _locked(table, options.lock, worst_hold)
        yield from _kept_apart(options, engine)
    elif options.writers == "live":
        raise PermanentError(
            f"table {table.id} names no lock that keeps its writers and Lakewarden apart: set options.lock, and "
            "docs/writers.md says which there are"
        )
    yield (
        "Lakewarden hears of each commit at once; a callback that fails or is late costs nobody a commit",
        {
            "hoodie.write.commit.callback.on": _ON,
            "hoodie.write.commit.callback.http.url": hook_url,
            "hoodie.write.commit.callback.http.timeout.seconds": "2",
        },
    )
    for service, policy in table.policies.items():
        scheduled = policy.schedule is not Scheduling.DAEMON
        keys = _service_keys(service, engine, scheduled=scheduled)
        if keys:
            yield _why(service, scheduled=scheduled), keys
    clustered = Service.CLUSTERING in table.policies and options.declared_index is not BucketIndex.SIMPLE
    if clustered and options.lock is not None:
        yield from _beside_clustering(engine, resized=_hashes_consistently(options))
    elif clustered and _hashes_consistently(options):
        yield from _met(engine, resized=True)
    yield from _indexes(table)


def _indexes(table: Table) -> Iterator[_Group]:
    """Yield the switches of the indexes that are built or dropped, under the names of old and new releases."""
    policy = table.policies.get(Service.INDEXING)
    options = None if policy is None else policy.options
    if not isinstance(options, IndexingOptions):
        return
    if options.build:
        yield _TO_HAVE, {"hoodie.metadata.auto.delete.partitions": _OFF}
    if options.columns:
        why = "a writer that keeps up column stats takes its own columns: the table has these"
        yield why, {COLUMNS: ",".join(options.columns)}
    keys = {key: _OFF for name in options.drop for key in _SWITCHES.get(name, ())}
    if keys:
        yield "a writer builds indexes by its own switches: the table is not to have these", keys


_TO_HAVE = (
    "so a writer keeps up what indexes the table has, and needs no switch for them: set none of theirs. A release "
    "before 1.2 does not know this, and drops an index whose switch is not set: set it there, once the index is built"
)

_SWITCHES = {
    "record_index": ("hoodie.metadata.record.index.enable", "hoodie.metadata.global.record.level.index.enable"),
    "bloom_filters": ("hoodie.metadata.index.bloom.filter.enable",),
    "column_stats": ("hoodie.metadata.index.column.stats.enable",),
    "partition_stats": ("hoodie.metadata.index.partition.stats.enable",),
}


def _hashes_consistently(options: HudiTableOptions) -> bool:
    return options.declared_index is BucketIndex.CONSISTENT_HASHING


def _locked(table: Table, lock: Lock, worst_hold: timedelta | None) -> Iterator[_Group]:
    jar = jar_beside_the_bundle(lock, table.location)
    needs = "" if jar is None else f"; {jar} must be on the class path"
    yield f"the lock that Lakewarden takes, too{needs}", lock_keys(lock)
    tried_for = format_duration(patience(lock, worst_hold=worst_hold))
    seen = "no hold was measured yet" if worst_hold is None else f"held for {worst_hold.total_seconds():.1f}s at most"
    yield f"the lock is tried for {tried_for} at least ({seen})", wait_keys(lock, worst_hold=worst_hold)


def _kept_apart(options: HudiTableOptions, engine: WriterEngine) -> Iterator[_Group]:
    if options.concurrency == "non_blocking":
        flink = engine is WriterEngine.FLINK
        yield (
            "writers append to the same buckets at once, and check no conflict: hoodie.bucket.index.num.buckets has to "
            "be the same in all of them",
            {
                "hoodie.write.concurrency.mode": "non_blocking_concurrency_control",
                "table.type" if flink else "hoodie.table.type": "MERGE_ON_READ",
                "index.type" if flink else "hoodie.index.type": "BUCKET",
                "hoodie.index.bucket.engine": "SIMPLE",
            },
        )
    else:
        yield (
            "commits are checked against what others committed meanwhile",
            {"hoodie.write.concurrency.mode": "optimistic_concurrency_control"},
        )
    yield (
        "a write counts as failed when its heartbeat stops, not when somebody else begins one",
        {"hoodie.clean.failed.writes.policy": "LAZY", "hoodie.cleaner.policy.failed.writes": "LAZY"},
    )


def _beside_clustering(engine: WriterEngine, *, resized: bool) -> Iterator[_Group]:
    """Return what saves a write that meets a pending clustering (run: either key alone does not, docs/hudi.md)."""
    yield from _met(engine, resized=resized)
    yield (
        "a commit is held against what was completed during the write, and not against a clustering that is only "
        "pending; Lakewarden completes nothing that a write in flight would lose to",
        {"hoodie.write.lock.conflict.resolution.strategy": _GIVE_WAY},
    )


def _met(engine: WriterEngine, *, resized: bool) -> Iterator[_Group]:
    if engine is WriterEngine.FLINK:  # it asks nothing of pending clusterings before it writes
        return
    key = "hoodie.clustering.updates.strategy"
    if resized:
        yield "a write to a bucket that is being resized goes to the new buckets as well", {key: _TO_BOTH}
    else:
        why = "a write that updates what Lakewarden is clustering is not turned away: the clustering loses"
        yield why, {key: _ALLOW}


def _why(service: Service, *, scheduled: bool) -> str:
    if scheduled and service in _SCHEDULED_BY_WRITERS:
        return f"{service} is planned by the writer and executed by Lakewarden"
    return f"{service} is Lakewarden's"


_SCHEDULED_BY_WRITERS = frozenset({Service.COMPACTION, Service.CLUSTERING})
"""The services whose plans Hudi's writers can make without executing them."""


def _service_keys(service: Service, engine: WriterEngine, *, scheduled: bool) -> Mapping[str, str]:
    """Return what keeps a writer from executing a service, and lets it plan it where that is asked for."""
    match service:
        case Service.COMPACTION:
            return _compaction_keys(engine, scheduled=scheduled)
        case Service.CLUSTERING:
            return _clustering_keys(engine, scheduled=scheduled)
        case Service.LOG_COMPACTION:
            return {"hoodie.log.compaction.inline": _OFF}
        case Service.CLEAN:
            keys = {
                "hoodie.clean.automatic": _OFF,
                "hoodie.clean.async.enabled": _OFF,
                "hoodie.clean.async": _OFF,  # before 1.0
            }
            return {**keys, "clean.async.enabled": _OFF} if engine is WriterEngine.FLINK else keys
        case Service.ARCHIVE:
            return {"hoodie.archive.automatic": _OFF, "hoodie.archive.async": _OFF}
        case Service.TTL:
            return {"hoodie.partition.ttl.inline": _OFF}
        case (
            Service.ROLLBACK
            | Service.INDEXING
            | Service.SAVEPOINT
            | Service.CATALOG_SYNC
            | Service.METADATA_VALIDATION
            | Service.METADATA_REBUILD
            | Service.ORPHANS
        ):
            return {}  # no writer does these by itself, once it is LAZY
        case _:
            assert_never(service)


def _compaction_keys(engine: WriterEngine, *, scheduled: bool) -> Mapping[str, str]:
    match engine:
        case WriterEngine.SPARK:
            return {
                **_inline("compact", scheduled=scheduled),
                # A streaming query compacts in the background unless it is told not to.
                "hoodie.datasource.compaction.async.enable": _OFF,
                "hoodie.datasource.write.streaming.disable.compaction": _ON,
            }
        case WriterEngine.STREAMER:
            return {**_inline("compact", scheduled=scheduled), "--disable-compaction": ""}
        case WriterEngine.FLINK:
            return {
                **_inline("compact", scheduled=False),  # its coordinator plans, by a key of its own
                "compaction.async.enabled": _OFF,
                "compaction.schedule.enabled": _ON if scheduled else _OFF,
            }
        case _:
            assert_never(engine)


def _clustering_keys(engine: WriterEngine, *, scheduled: bool) -> Mapping[str, str]:
    match engine:
        case WriterEngine.SPARK | WriterEngine.STREAMER:
            return {**_inline("clustering", scheduled=scheduled), "hoodie.clustering.async.enabled": _OFF}
        case WriterEngine.FLINK:
            return {
                **_inline("clustering", scheduled=False),
                "clustering.async.enabled": _OFF,
                "clustering.schedule.enabled": _ON if scheduled else _OFF,
            }
        case _:
            assert_never(engine)


def _inline(service: str, *, scheduled: bool) -> dict[str, str]:
    return {f"hoodie.{service}.inline": _OFF, f"hoodie.{service}.schedule.inline": _ON if scheduled else _OFF}
