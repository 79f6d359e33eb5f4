"""The options that a writer of a Hudi table sets so that Lakewarden can serve the table meanwhile.

Keys that Hudi 1.0 renamed are given under both names: each release ignores the name it does not know. Flink's own keys
are read in its `FlinkOptions` (it passes `hoodie.*` on), Structured Streaming's in `HoodieStreamingSink`, Hudi
Streamer's in `StreamSync`, which refuses an inline compaction that its flags contradict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta

from lakewarden.planners.formats.hudi.indexes.indexes import COLUMNS
from lakewarden.planners.formats.hudi.options.locks import jar_beside_the_bundle, lock_keys, retry_time, wait_keys
from lakewarden.planners.formats.hudi.options.service_options import IndexingOptions, options_of
from lakewarden.planners.formats.hudi.options.table_options import BucketIndex, HudiTableOptions, Lock
from lakewarden.planners.hooks import At, CommitHook, Hint, HookKey, HookReader, MalformedHookError, json_object
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Scheduling, Table
from lakewarden.planners.ports import FLINK, SPARK, WriterEngine, WriterOption
from lakewarden.planners.settings import format_duration
from lakewarden.planners.storage.locations import spelled_location

_OFF, _ON = "false", "true"

_TO_BOTH = "org.apache.hudi.client.clustering.update.strategy.SparkConsistentBucketDuplicateUpdateStrategy"
_ALLOW = "org.apache.hudi.client.clustering.update.strategy.SparkAllowUpdateStrategy"
_GIVE_WAY = "org.apache.hudi.client.transaction.PreferWriterConflictResolutionStrategy"


STREAMER = WriterEngine(name="streamer")
"""Hudi Streamer, which has some of its options on its command line."""

ENGINES = (SPARK, FLINK, STREAMER)


def writer_options(
    table: Table, *, engine: WriterEngine, hook_url: str, lock_held: timedelta | None = None
) -> tuple[WriterOption, ...]:
    """Return the options. Those with the same reason are beside each other.

    Services without a policy are left to the table's writers. Raises PermanentError for a table with live writers and
    without a named lock.
    """
    options = table.options if isinstance(table.options, HudiTableOptions) else HudiTableOptions()
    shared = _shared(table, options, engine, lock_held)
    return tuple(
        WriterOption(key=key, value=value, why=why, shared=key in shared)
        for why, keys in _groups(table, options, engine, hook_url, lock_held)
        for key, value in keys.items()
    )


def _shared(
    table: Table, options: HudiTableOptions, engine: WriterEngine, worst_hold: timedelta | None
) -> frozenset[str]:
    """Return the keys that several writers need with or without Lakewarden."""
    if options.lock is None:
        return frozenset()
    groups = [*_locked(table, options.lock, worst_hold), *_kept_apart(options, engine), *_indexed(options, engine)]
    return frozenset(key for _, keys in groups for key in keys)


_Group = tuple[str, Mapping[str, str]]


def _groups(
    table: Table, options: HudiTableOptions, engine: WriterEngine, hook_url: str, worst_hold: timedelta | None
) -> Iterator[_Group]:
    if options.lock is not None:
        yield from _locked(table, options.lock, worst_hold)
        yield from _kept_apart(options, engine)
    elif options.writers == "live":
        raise PermanentError(
            f"table {table.id} has no lock that its writers and Lakewarden share: set options.lock "
            "(docs/writers.md lists the locks)"
        )
    yield from _indexed(options, engine)
    yield (
        "Lakewarden is notified of each commit at once; a callback that fails or is late makes no commit fail",
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
            yield _why(service, scheduled=scheduled) + _looks_for_returning_keys(service, options, engine), keys
    clustered = Service.CLUSTERING in table.policies and options.declared_index is not BucketIndex.SIMPLE
    if clustered and options.lock is not None:
        yield from _beside_clustering(engine, resized=_hashes_consistently(options))
    elif clustered and _hashes_consistently(options):
        yield from _met(engine, resized=True)
    yield from _indexes(table)


def _indexes(table: Table) -> Iterator[_Group]:
    """Yield the switches of the indexes that are built or dropped, under the names of old and new releases."""
    options = options_of(table, Service.INDEXING, IndexingOptions)
    if options is None:
        return
    if options.build:
        yield _TO_HAVE, {"hoodie.metadata.auto.delete.partitions": _OFF}
    if options.columns:
        why = "a writer keeps up column stats of its own list of columns: the table has these"
        yield why, {COLUMNS: ",".join(options.columns)}
    keys = {key: _OFF for name in options.drop for key in _SWITCHES.get(name, ())}
    if keys:
        yield "a writer builds indexes by its own switches: the table should not have these", keys


_TO_HAVE = (
    "with this a writer keeps up the indexes that the table has, and needs no switch for them: set none. A release "
    "before 1.2 does not know this, and drops an index if its switch is not set: set it there, once the index is built"
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
    yield f"the lock that Lakewarden takes as well{needs}", lock_keys(lock)
    tried_for = format_duration(retry_time(lock, worst_hold=worst_hold))
    seen = "no hold was measured yet" if worst_hold is None else f"held for {worst_hold.total_seconds():.1f}s at most"
    yield f"the lock is tried for {tried_for} at least ({seen})", wait_keys(lock, worst_hold=worst_hold)


def _kept_apart(options: HudiTableOptions, engine: WriterEngine) -> Iterator[_Group]:
    if options.concurrency == "non_blocking":
        yield (
            "writers append to the same buckets at once, and check no conflict",
            {
                "hoodie.write.concurrency.mode": "non_blocking_concurrency_control",
                "table.type" if engine == FLINK else "hoodie.table.type": "MERGE_ON_READ",
            },
        )
    else:
        yield (
            "commits are checked against what others committed meanwhile",
            {"hoodie.write.concurrency.mode": "optimistic_concurrency_control"},
        )
    yield (
        "a write counts as failed when its heartbeat stops, not when another writer begins one",
        {"hoodie.clean.failed.writes.policy": "LAZY", "hoodie.cleaner.policy.failed.writes": "LAZY"},
    )


def _indexed(options: HudiTableOptions, engine: WriterEngine) -> Iterator[_Group]:
    """Yield the declared bucket index. Hudi keeps it in no table, and a writer without it would double keys."""
    if options.declared_index is not None:
        fields = () if options.bucket_index is None else options.bucket_index.hash_fields
        yield (
            "the index that is declared: a writer with another one writes a key a second time. "
            "hoodie.bucket.index.num.buckets has to be the same in all of them",
            {
                "index.type" if engine == FLINK else "hoodie.index.type": "BUCKET",
                "hoodie.index.bucket.engine": options.declared_index.value.upper(),
                **({"hoodie.bucket.index.hash.field": ",".join(fields)} if fields else {}),
            },
        )


def _beside_clustering(engine: WriterEngine, *, resized: bool) -> Iterator[_Group]:
    """Yield what saves a write that meets a pending clustering (run: either key alone does not, docs/hudi.md)."""
    yield from _met(engine, resized=resized)
    yield (
        "a commit is compared with what was completed during the write, and not with a clustering that is only "
        "pending; Lakewarden completes nothing that a write in flight would lose to",
        {"hoodie.write.lock.conflict.resolution.strategy": _GIVE_WAY},
    )


def _met(engine: WriterEngine, *, resized: bool) -> Iterator[_Group]:
    if engine == FLINK:  # it asks nothing of pending clusterings before it writes
        return
    key = "hoodie.clustering.updates.strategy"
    if resized:
        yield "a write to a bucket that is being resized goes to the new buckets as well", {key: _TO_BOTH}
    else:
        why = "a write that updates what Lakewarden is clustering is not rejected: the clustering loses"
        yield why, {key: _ALLOW}


def _why(service: Service, *, scheduled: bool) -> str:
    if scheduled and service in _SCHEDULED_BY_WRITERS:
        return f"{service} is planned by the writer and executed by Lakewarden"
    return f"{service} is Lakewarden's"


def _looks_for_returning_keys(service: Service, options: HudiTableOptions, engine: WriterEngine) -> str:
    """Return what a compaction leaves out beside writers that find keys in base files only (docs/hudi.md)."""
    if service is not Service.COMPACTION or engine == FLINK or not options.looks_for_returning_keys:
        return ""
    return (
        ". With the index SIMPLE or BLOOM (the default), one that drops deleted rows leaves out the file groups "
        "in which one may come back; options.returning_keys and bucket_index say when it need not"
    )


_SCHEDULED_BY_WRITERS = frozenset({Service.COMPACTION, Service.CLUSTERING})
"""Hudi's writers can make the plans of these services without executing them."""


def _service_keys(service: Service, engine: WriterEngine, *, scheduled: bool) -> Mapping[str, str]:
    """Return what keeps a writer from executing a service, and what lets it plan the service if that is asked for."""
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
            return {**keys, "clean.async.enabled": _OFF} if engine == FLINK else keys
        case Service.ARCHIVE:
            return {"hoodie.archive.automatic": _OFF, "hoodie.archive.async": _OFF}
        case Service.TTL:
            return {"hoodie.partition.ttl.inline": _OFF}
        case _:
            return {}  # no writer does any other by itself, once it is LAZY


def _compaction_keys(engine: WriterEngine, *, scheduled: bool) -> Mapping[str, str]:
    if engine == FLINK:
        return {
            **_inline("compact", scheduled=False),  # its coordinator plans, by a key of its own
            "compaction.async.enabled": _OFF,
            "compaction.schedule.enabled": _ON if scheduled else _OFF,
        }
    if engine == STREAMER:
        return {**_inline("compact", scheduled=scheduled), "--disable-compaction": ""}
    return {
        **_inline("compact", scheduled=scheduled),
        # By default a streaming query compacts in the background.
        "hoodie.datasource.compaction.async.enable": _OFF,
        "hoodie.datasource.write.streaming.disable.compaction": _ON,
    }


def _clustering_keys(engine: WriterEngine, *, scheduled: bool) -> Mapping[str, str]:
    if engine == FLINK:
        return {
            **_inline("clustering", scheduled=False),
            "clustering.async.enabled": _OFF,
            "clustering.schedule.enabled": _ON if scheduled else _OFF,
        }
    return {**_inline("clustering", scheduled=scheduled), "hoodie.clustering.async.enabled": _OFF}


def _inline(service: str, *, scheduled: bool) -> dict[str, str]:
    return {f"hoodie.{service}.inline": _OFF, f"hoodie.{service}.schedule.inline": _ON if scheduled else _OFF}


# Hudi's HTTP commit callback (`HoodieWriteCommitHttpCallback`): which table a writer says it has committed to.
#
# The body is a `HoodieWriteCommitCallbackMessage` as plain JSON, with one write stat for each file, so it can be
# megabytes. Only `basePath` is read: a hook is a hint, and its content is not trusted further than that. It stands
# before the write stats, in the order of the class's fields as in the alphabet's, so that the beginning of a body will
# do.


def hints_of(body: bytes, *, whole: bool = True) -> tuple[Hint, ...]:
    """Return the table that the callback is about; of a long one the beginning will do. Raises MalformedHookError."""
    base_path = json_object(body, whole=whole).get("basePath")
    if not isinstance(base_path, str):
        raise MalformedHookError("the body has no basePath, as Hudi's commit callback has")
    try:
        return (At(location=spelled_location(base_path)),)
    except PermanentError as wrong:
        raise MalformedHookError(str(wrong)) from wrong


_READER = HookReader(sender="hudi", read=lambda body, whole, _catalog: hints_of(body, whole=whole))

_KEY = HookKey(
    header="HUDI-CALLBACK-KEY",
    option="hoodie.write.commit.callback.http.api.key",
    well_known="hudi_write_commit_http_callback",
)
"""Read in `HoodieWriteCommitHttpCallbackClient` of 1.1.1 and 1.2.0: it sends this header with every callback."""

HOOK = CommitHook(
    senders=("hudi",), about="Take Hudi's HTTP commit callback.", reader_of=lambda _path: _READER, key=_KEY
)
