"""The options that a writer of a Hudi table is told to set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pytest

from lakewarden.executors.programs.hudi.client.config import client_settings
from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.hudi.options.service_options import IndexingOptions
from lakewarden.planners.formats.hudi.options.table_options import Buckets, HudiTableOptions
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Policy, Scheduling, Table, TableId
from lakewarden.planners.ports import FLINK, SPARK, WriterEngine
from lakewarden.planners.triggers import NumCommits

HOOK = "http://lakewarden:8080/v1/hooks/hudi"
LOCKED = HudiTableOptions.model_validate(
    {"lock": {"provider": "zookeeper", "url": "zk:2181", "base_path": "/hudi", "lock_key": "orders"}}
)
EVERY = tuple(Service)


def _table(*services: Service, schedule: Scheduling = Scheduling.DAEMON, options: HudiTableOptions = LOCKED) -> Table:
    policies = {service: Policy(trigger=NumCommits(at_least=5), schedule=schedule) for service in services}
    return Table(id=TableId("orders"), format="hudi", location="/data/orders", options=options, policies=policies)


def _set(table: Table, engine: WriterEngine = SPARK, worst_hold: timedelta | None = None) -> Mapping[str, str]:
    found = HUDI.writer_options(table, engine=engine, hook_url=HOOK, lock_held=worst_hold)
    assert len({option.key for option in found}) == len(found)
    assert all(option.why for option in found)
    return {option.key: option.value for option in found}


@pytest.mark.parametrize("engine", HUDI.writer_engines, ids=str)
def test_writers_and_our_own_client_name_the_same_lock(engine: WriterEngine) -> None:
    """Two sides that spell a lock differently hold two locks. So every key of the lock is equal on both."""
    ours = client_settings({"hoodie.table.version": "9"}, options=LOCKED, service={}, indexes={})
    theirs = _set(_table(*EVERY), engine)

    lock = {key: value for key, value in ours.items() if key.startswith("hoodie.write.lock.")}
    assert lock
    asked = {key: value for key, value in theirs.items() if key.startswith("hoodie.write.lock.")}
    asked.pop("hoodie.write.lock.conflict.resolution.strategy")  # it is about conflicts, not about the lock
    assert asked == lock
    assert theirs["hoodie.write.concurrency.mode"] == ours["hoodie.write.concurrency.mode"]


def test_an_index_that_is_to_be_built_is_neither_built_nor_dropped_by_a_writer() -> None:
    """By default a writer of 1.2 drops it at its next write. With its own switch it builds it within its commit. If it
    should also leave that to others, each of its writes fails until the index is there.
    """
    asked = IndexingOptions.model_validate(
        {"build": ["record_index", "column_stats"], "columns": ["note", "ts"], "drop": ["bloom_filters"]}
    )
    policy = Policy(trigger=NumCommits(at_least=1), options=asked)
    found = _set(replace(_table(), policies={Service.INDEXING: policy}))

    assert found["hoodie.metadata.auto.delete.partitions"] == "false"
    assert not {"hoodie.metadata.global.record.level.index.enable", "hoodie.metadata.index.async"} & set(found)
    assert "hoodie.metadata.index.column.stats.enable" not in found
    assert found["hoodie.metadata.index.column.stats.column.list"] == "note,ts"
    assert found["hoodie.metadata.index.bloom.filter.enable"] == "false"


def test_writers_of_buckets_that_are_resized_write_to_the_new_ones_as_well() -> None:
    """Hudi has a strategy for it. Without it their updates are rejected while a plan is pending."""
    declared = HudiTableOptions.model_validate({"writers": "none", "bucket_index": {"engine": "consistent_hashing"}})
    key, strategy = "hoodie.clustering.updates.strategy", "SparkConsistentBucketDuplicateUpdateStrategy"

    assert _set(_table(Service.CLUSTERING, options=declared))[key].endswith(strategy)
    assert key not in _set(_table(Service.CLEAN, options=declared))
    assert not _set(_table(Service.CLUSTERING))[key].endswith(strategy)


@pytest.mark.parametrize("engine", HUDI.writer_engines, ids=str)
@pytest.mark.parametrize("bucket_engine", ["simple", "consistent_hashing"])
def test_a_second_job_is_told_the_index_that_is_declared(engine: WriterEngine, bucket_engine: str) -> None:
    """Hudi keeps it in no table. A job with the default index would write a key a second time."""
    index = {"engine": bucket_engine, "hash_fields": ["city", "order_id"]}
    found = _set(_table(options=LOCKED.model_copy(update={"bucket_index": Buckets.model_validate(index)})), engine)

    assert found["index.type" if engine == FLINK else "hoodie.index.type"] == "BUCKET"
    assert found["hoodie.index.bucket.engine"] == bucket_engine.upper()
    assert found["hoodie.bucket.index.hash.field"] == "city,order_id"
    assert not any("index" in key for key in _set(_table(), engine))


@pytest.mark.parametrize("engine", HUDI.writer_engines, ids=str)
def test_failed_writes_are_left_to_heartbeats_under_the_names_of_old_and_new_releases(engine: WriterEngine) -> None:
    """An EAGER writer would roll back the writes of other writers. Before Hudi 1.0 the policy had another name."""
    found = _set(_table(), engine)

    assert found["hoodie.clean.failed.writes.policy"] == found["hoodie.cleaner.policy.failed.writes"] == "LAZY"


@pytest.mark.parametrize("engine", HUDI.writer_engines, ids=str)
def test_only_beside_a_clustering_writers_are_told_how_to_meet_one(engine: WriterEngine) -> None:
    """A write that updates what is being clustered continues, and wins. Flink's writer ignores pending clusterings."""
    allow, give_way = "hoodie.clustering.updates.strategy", "hoodie.write.lock.conflict.resolution.strategy"
    alone, beside = _set(_table(Service.COMPACTION), engine), _set(_table(Service.CLUSTERING), engine)

    assert not {allow, give_way} & set(alone)
    assert beside[give_way].endswith(".PreferWriterConflictResolutionStrategy")
    assert (allow in beside) == (engine is not FLINK)
    assert beside.get(allow, "SparkAllowUpdateStrategy").endswith("SparkAllowUpdateStrategy")


def test_the_callback_never_holds_a_writer_up_for_long() -> None:
    """Hudi's own timeout is thirty seconds, and the writer waits for it with every commit."""
    found = _set(_table())

    assert found["hoodie.write.commit.callback.on"] == "true"
    assert found["hoodie.write.commit.callback.http.url"] == HOOK
    assert found["hoodie.write.commit.callback.http.timeout.seconds"] == "2"


@pytest.mark.parametrize("engine", HUDI.writer_engines, ids=str)
def test_services_with_a_policy_are_off_in_the_writer(engine: WriterEngine) -> None:
    """A service of Lakewarden's is neither executed nor planned by the writer as well."""
    bare, full = _set(_table(), engine), _set(_table(*EVERY), engine)

    switches = {key: value for key, value in full.items() if key not in bare and not key.endswith("strategy")}
    no_switch = {"--disable-compaction": "", "hoodie.datasource.write.streaming.disable.compaction": "true"}
    assert {key for key, value in switches.items() if value != "false"} <= set(no_switch)
    assert {"hoodie.compact.inline", "hoodie.clean.automatic", "hoodie.archive.automatic"} <= set(switches)


def test_each_engine_is_told_its_own_switches() -> None:
    """Flink, Structured Streaming and Hudi Streamer compact in the background by switches of their own."""
    spark, flink, streamer = (_set(_table(*EVERY), engine) for engine in HUDI.writer_engines)

    assert spark["hoodie.datasource.compaction.async.enable"] == "false"
    assert spark["hoodie.datasource.write.streaming.disable.compaction"] == "true"
    assert {key: value for key, value in flink.items() if not key.startswith("hoodie.")} == {
        "compaction.async.enabled": "false",
        "compaction.schedule.enabled": "false",
        "clustering.async.enabled": "false",
        "clustering.schedule.enabled": "false",
        "clean.async.enabled": "false",
    }
    assert streamer["--disable-compaction"] == ""


@pytest.mark.parametrize("schedule", [Scheduling.WRITER, Scheduling.BOTH])
def test_where_writers_plan_they_plan_and_do_not_execute(schedule: Scheduling) -> None:
    """Planning is inline, or in Flink by the coordinator. Execution stays off everywhere."""
    table = _table(Service.COMPACTION, Service.CLUSTERING, schedule=schedule)
    spark, flink = _set(table), _set(table, FLINK)

    for service in ("compact", "clustering"):
        assert (spark[f"hoodie.{service}.inline"], spark[f"hoodie.{service}.schedule.inline"]) == ("false", "true")
        assert (flink[f"hoodie.{service}.inline"], flink[f"hoodie.{service}.schedule.inline"]) == ("false", "false")
    for service in ("compaction", "clustering"):
        assert (flink[f"{service}.async.enabled"], flink[f"{service}.schedule.enabled"]) == ("false", "true")


def test_services_without_a_policy_are_left_to_the_writer() -> None:
    """A service that is off in the writer and not Lakewarden's would never run."""
    assert not any(key.startswith(("hoodie.archive", "hoodie.compact")) for key in _set(_table(Service.CLEAN)))


def test_the_lock_is_tried_for_longer_where_it_was_held_for_long() -> None:
    """The hold took ten minutes. The client tries five times as long, in tries of one minute."""
    found = _set(_table(), worst_hold=timedelta(minutes=10))

    assert found["hoodie.write.lock.client.num_retries"] == "50"


def test_without_a_lock_there_is_nothing_safe_to_print() -> None:
    """Half of the options would look like all of them."""
    with pytest.raises(PermanentError, match=r"options\.lock"):
        _set(_table(options=HudiTableOptions()))


def test_a_writer_that_never_runs_beside_us_needs_no_lock() -> None:
    """It still reports its commits and leaves the services off."""
    found = _set(_table(Service.CLEAN, options=HudiTableOptions(writers="none")))

    assert not any("lock" in key for key in found)
    assert found["hoodie.clean.automatic"] == "false"
