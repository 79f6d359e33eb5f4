"""The programs of the formats, and the settings of Hudi's write client."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.executors.programs.bracket import carry_out
from lakewarden.executors.programs.hudi import clustering, compaction, log_compaction
from lakewarden.executors.programs.hudi.clean import settings as clean_settings
from lakewarden.executors.programs.hudi.client import config
from lakewarden.executors.programs.hudi.client.errors import LockHeldError, meaning
from lakewarden.executors.programs.java_errors import for_people
from lakewarden.executors.programs.registry import PROGRAMS
from lakewarden.planners.formats.hudi.indexes.indexes import Indexes, switches
from lakewarden.planners.formats.hudi.options.service_options import (
    CleanOptions,
    CleanPolicy,
    ClusteringOptions,
    CompactionOptions,
    LayoutStrategy,
    LogCompactionOptions,
)
from lakewarden.planners.formats.hudi.options.table_options import (
    DynamoDbLock,
    FilesystemLock,
    HiveLock,
    HudiTableOptions,
    Lock,
    StorageLock,
    ZookeeperLock,
    why_not,
)
from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError, UnknownError, YieldError
from lakewarden.planners.model.instant import Step
from lakewarden.planners.registry import FORMATS

PROPERTIES = {
    "hoodie.table.name": "orders",
    "hoodie.table.version": "8",
    "hoodie.table.recordkey.fields": "id",
    "hoodie.table.metadata.partitions": "files,record_index",
}
NO_SPACE = [
    "org.apache.spark.SparkException: Job aborted due to stage failure",
    "java.io.FileNotFoundException: /scratch/blockmgr/0a/part.parquet (No space left on device)",
]
INDEXES = switches(Indexes(complete=frozenset({"files", "record_index"})))
ZOOKEEPER = HudiTableOptions(
    lock=ZookeeperLock(provider="zookeeper", url="zk:2181", base_path="/hudi", lock_key="orders")
)


@pytest.mark.parametrize(
    ("key", "of_table"),
    [
        ("partitionpath.field", "partition.fields"),
        ("keygenerator.class", "keygenerator.class"),
        ("keygenerator.type", "keygenerator.type"),
    ],
)
def test_a_table_that_keeps_no_keys_beside_its_rows_tells_what_they_are_made_of(key: str, of_table: str) -> None:
    """Hudi's default generator would ask for partition fields, also where there are none. Other tables need none."""
    table = {**PROPERTIES, f"hoodie.table.{of_table}": "region"}
    with_keys = config.client_settings(table, options=ZOOKEEPER, service={}, indexes=INDEXES)
    table["hoodie.populate.meta.fields"] = "false"
    without = config.client_settings(table, options=ZOOKEEPER, service={}, indexes=INDEXES)

    assert without[f"hoodie.datasource.write.{key}"] == "region"
    assert f"hoodie.datasource.write.{key}" not in with_keys


def test_every_service_of_every_format_has_its_program() -> None:
    """A worker can execute everything that a format can plan. Nothing else is registered."""
    promised = {one.name: set(one.services) for one in FORMATS.values() if one.services}

    assert {name: set(one.programs) for name, one in PROGRAMS.items()} == promised


@given(
    st.dictionaries(
        st.sampled_from(sorted(config.client_settings(PROPERTIES, options=ZOOKEEPER, service={}, indexes=INDEXES))),
        st.text(),
    )
)
def test_no_configuration_overrides_what_guards_the_table(conf: dict[str, str]) -> None:
    """The table's properties and Lakewarden's own settings count before every configuration of a user."""
    options = ZOOKEEPER.model_copy(update={"conf": {**conf, "hoodie.parquet.max.file.size": "1"}})

    settings = config.client_settings(PROPERTIES, options=options, service={}, indexes=INDEXES)

    assert settings.pop("hoodie.parquet.max.file.size") == "1"
    assert settings == config.client_settings(PROPERTIES, options=ZOOKEEPER, service={}, indexes=INDEXES)


@given(
    st.dictionaries(
        st.sampled_from(
            ["hoodie.base.path", "hoodie.filesystem.view.type", "hoodie.filesystem.view.remote.host",
             "hoodie.cleaner.policy", "hoodie.clustering.plan.strategy.class", "hoodie.write.lock.provider",
             "hoodie.metrics.reporter.class", "hoodie.timeline.history.path", "hoodie.clean.commits.retained"]
        )
        | st.from_regex(r"hoodie\.[a-z]{1,8}\.[a-z]{1,8}", fullmatch=True),
        st.text(max_size=9),
    )
)  # fmt: skip
def test_a_tables_own_file_chooses_nothing_of_what_our_client_does(planted: dict[str, str]) -> None:
    """Every writer of a table can also write its `hoodie.properties`. A key that Hudi does not keep there is
    ignored.
    """
    settings = config.client_settings({**planted, **PROPERTIES}, options=ZOOKEEPER, service={}, indexes=INDEXES)

    assert settings == config.client_settings(PROPERTIES, options=ZOOKEEPER, service={}, indexes=INDEXES)


def test_our_client_upgrades_no_table_and_rolls_nothing_back_in_its_metadata_table() -> None:
    """Live writers of 1.1 and later have their instants in flight there, and fail at their commit without them."""
    settings = config.client_settings(PROPERTIES, options=ZOOKEEPER, service={}, indexes=INDEXES)

    assert settings[config.STREAMING] == "true"
    assert why_not(config.STREAMING) is not None
    assert settings["hoodie.write.table.version"] == "8"
    assert settings["hoodie.write.auto.upgrade"] == "false"


@pytest.mark.parametrize(
    "options",
    [
        ZOOKEEPER,
        HudiTableOptions(lock=FilesystemLock(provider="filesystem")),
        HudiTableOptions(writers="none"),
    ],
)
def test_there_is_always_a_lock_that_holds_between_processes(options: HudiTableOptions) -> None:
    """Even on a table without writers, our own workers exclude each other. The lock is never an in-process lock."""
    settings = config.client_settings(PROPERTIES, options=options, service={}, indexes=INDEXES)

    assert settings["hoodie.write.concurrency.mode"] == "optimistic_concurrency_control"
    assert settings["hoodie.write.lock.provider"].rsplit(".", 1)[1] in (
        "ZookeeperBasedLockProvider",
        "FileSystemBasedLockProvider",
    )


def test_service_options_become_hudis_keys() -> None:
    """Each option reaches Hudi under its key. An option that is not set keeps Hudi's default."""
    assert compaction.settings(CompactionOptions(target_io_mb=7))["hoodie.compaction.target.io"] == "7"
    clean = clean_settings(CleanOptions(policy=CleanPolicy.KEEP_LATEST_FILE_VERSIONS, file_versions_retained=2))
    assert clean["hoodie.clean.policy"] == "KEEP_LATEST_FILE_VERSIONS"
    assert clean["hoodie.clean.fileversions.retained"] == "2"
    assert "hoodie.clean.commits.retained" not in clean
    ordered = clustering.settings(ClusteringOptions(sort_columns=("a", "b"), layout=LayoutStrategy.HILBERT))
    assert ordered["hoodie.clustering.plan.strategy.sort.columns"] == "a,b"
    assert ordered["hoodie.layout.optimize.strategy"] == "hilbert"
    we_lose = "org.apache.hudi.client.transaction.PreferWriterConflictResolutionStrategy"
    assert ordered["hoodie.write.lock.conflict.resolution.strategy"] == we_lose  # without it the writer loses
    assert ordered["hoodie.clustering.plan.strategy.small.file.limit"] == str(300 * 2**20)
    merged = log_compaction.settings(LogCompactionOptions(log_blocks_threshold=3))
    assert merged["hoodie.log.compaction.blocks.threshold"] == "3"


def test_a_clustering_that_stepped_back_takes_a_smaller_slice_each_time() -> None:
    """Beside writers that delete from cold partitions, a plan of all of them was withdrawn five times of six (run)."""
    groups = [
        clustering.settings(ClusteringOptions(max_num_groups=30), retries=times)[
            "hoodie.clustering.plan.strategy.max.num.groups"
        ]
        for times in (0, 1, 2, 4, 5, 1000)
    ]

    assert groups == ["30", "15", "7", "1", "1", "1"]


@pytest.mark.parametrize(
    ("causes", "step", "kind"),
    [
        (
            ["x.HoodieLockException: Cannot execute instant 1 due to heartbeat by concurrent writer/job"],
            Step.EXECUTE,
            TemporaryError,
        ),
        (["x.HoodieException: commit", "x.HoodieWriteConflictException: overlap"], Step.COMMIT, YieldError),
        (["x.HoodieLockException: Unable to acquire the lock. Current lock owner"], Step.COMMIT, LockHeldError),
        (["x.HoodieLockException: Unable to release the lock"], Step.COMMIT, UnknownError),
        (["x.TableNotFoundException: Hoodie table not found in path"], Step.PLAN, PermanentError),
        (
            ["x.SparkException: task", "java.io.FileNotFoundException: File s3://t/p/a_0_1.parquet"],
            Step.EXECUTE,
            PermanentError,
        ),
        (["x.FileNotFoundException: /t/.hoodie/.temp/20260101"], Step.EXECUTE, TemporaryError),
        (["x.HoodieIOException: disk full"], Step.EXECUTE, TemporaryError),
        (["x.HoodieIOException: disk full"], Step.COMMIT, UnknownError),
        (NO_SPACE, Step.PLAN, TemporaryError),
        (NO_SPACE, Step.EXECUTE, TemporaryError),
        (NO_SPACE, Step.COMMIT, UnknownError),
    ],
)
def test_a_java_exception_means_what_the_daemon_does_next(
    causes: list[str], step: Step, kind: type[LakewardenError]
) -> None:
    """In the commit step an error counts as harmless only if Hudi raises it before it completes an instant."""
    assert type(meaning(causes, step)) is kind


def test_a_dead_executors_heartbeat_is_waited_out() -> None:
    """A new attempt makes sense when the heartbeat has certainly run out."""
    causes = ["x.HoodieLockException: Cannot execute instant 1 due to heartbeat by concurrent writer/job"]

    error = meaning(causes, Step.EXECUTE)

    assert isinstance(error, TemporaryError)
    assert error.delay == timedelta(minutes=3)


@pytest.mark.parametrize(
    ("causes", "said"),
    [
        (
            ["x.SparkException: Job aborted", "java.io.FileNotFoundException: File file:/t/.a-0_1.log.1_0-1-2 no"],
            ".a-0_1.log.1_0-1-2 is missing",
        ),
        (
            [
                "x.SparkException: Job aborted\njava.lang.NullPointerException\n"
                "\tat org.apache.hudi.merge.SparkRecordMergingUtils.getCachedFieldNameToIdMapping(Unknown Source)"
            ],
            "roll the last write back, let a compaction run, and write it again",
        ),
    ],
)
def test_what_an_operator_has_to_do_is_told_before_javas_words(causes: list[str], said: str) -> None:
    """Which file is missing for the plan, or how a key is written again that Hudi cannot merge."""
    error = meaning(causes, Step.EXECUTE)

    assert isinstance(error, PermanentError)
    assert said in str(error)


@pytest.mark.parametrize(
    "lock",
    [
        ZOOKEEPER.lock,
        StorageLock(provider="storage"),
        FilesystemLock(provider="filesystem", path="/locks"),
        HiveLock(provider="hive", database="d", table="t", uris="thrift://m:9083"),
        DynamoDbLock(provider="dynamodb", table="t", partition_key="k", region="r", endpoint_url="https://d"),
    ],
)
def test_whatever_a_program_sets_is_refused_in_the_configuration(lock: Lock) -> None:
    """A user's value under such a key would be overridden without a message
    (`planners/formats/hudi/options/ours.py`).
    """
    every = {
        **compaction.settings(CompactionOptions()),
        **log_compaction.settings(LogCompactionOptions()),
        **clean_settings(CleanOptions(commits_retained=1, max_commits_to_clean=1)),
        **clean_settings(CleanOptions(policy=CleanPolicy.KEEP_LATEST_FILE_VERSIONS, file_versions_retained=2)),
        **clean_settings(CleanOptions(policy=CleanPolicy.KEEP_LATEST_BY_HOURS, hours_retained=2)),
        **clustering.settings(ClusteringOptions(sort_columns=("a",), partition_regex="x")),
    }
    options = HudiTableOptions(lock=lock)
    without = {key for key in PROPERTIES if not key.startswith("hoodie.table.")}

    set_by_us = config.client_settings(PROPERTIES, options=options, service=every, indexes=INDEXES).keys() - without

    assert len(set_by_us) > 40
    assert [key for key in sorted(set_by_us) if why_not(key) is None] == []
    assert why_not("hoodie.parquet.max.file.size") is None


# What an operator reads of an exception of the JVM.


@pytest.mark.parametrize(
    ("causes", "told"),
    [
        (["java.io.IOException: it is full\n\tat a.b.C"], "IOException: it is full"),
        (
            ["org.apache.spark.SparkException: a job failed\n\tat a.b", "a.Middle: m", "java.io.EOFException: end"],
            "SparkException: a job failed <- EOFException: end",
        ),
        (["java.lang.NullPointerException"], "NullPointerException"),
        (
            ["org.apache.spark.sql.catalyst.parser.ParseException: \n[PARSE_SYNTAX_ERROR] at 'uniontype'\n\n== SQL"],
            "ParseException: [PARSE_SYNTAX_ERROR] at 'uniontype'",
        ),
    ],
)
def test_an_exception_is_told_in_one_line_with_its_message(causes: list[str], told: str) -> None:
    """Also if its message begins on a line of its own."""
    assert for_people(causes) == told


# Tasks of a program that are done in several threads.


def test_as_many_tasks_are_under_way_as_asked_for_and_each_is_done_once() -> None:
    """No thread of them works any more when the call returns."""
    together, done = threading.Barrier(3, timeout=10), list[int]()

    def work(task: int) -> None:
        together.wait()
        done.append(task)

    errors = carry_out(range(9), work, at_a_time=3, stops=lambda _: True)

    assert sorted(done) == list(range(9))
    assert (errors.failures, errors.stopped) == ([], False)


def test_no_task_is_begun_after_an_error_that_stops_and_every_task_after_another_one() -> None:
    """The errors are kept in the order in which they came."""
    begun = list[int]()

    def work(task: int) -> None:
        begun.append(task)
        if task != 3:
            raise ValueError(task) if task < 3 else KeyError(task)

    errors = carry_out(range(9), work, at_a_time=1, stops=lambda error: isinstance(error, KeyError))

    assert begun == [0, 1, 2, 3, 4]
    assert [type(one) for one in errors.failures] == [ValueError, ValueError, ValueError, KeyError]
    assert errors.stopped
