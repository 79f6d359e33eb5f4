"""The session of one run."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any, get_args

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.util import inheritable_thread_target

from lakewarden.executors.contract import StagesDone
from lakewarden.executors.profile import SessionKey
from lakewarden.planners.model.instant import RunId

pytestmark = pytest.mark.spark

PARTITIONS = "spark.sql.shuffle.partitions"


@pytest.mark.core
def test_a_run_has_spark_settings_of_its_own_and_leaves_none_behind(writers_session: Any) -> None:
    """They apply to everything that its thread does, even if Java code asks for the active session. They apply to no
    later run.
    """
    with writers_session.for_run(RunId("r1"), {PARTITIONS: "7"}) as spark:
        active = spark.sparkContext._jvm.org.apache.spark.sql.SparkSession.active()
        assert active.conf().get(PARTITIONS) == "7"
        shuffled = spark.range(100).selectExpr("id % 50 AS key").repartition("key")
        spark.conf.set("spark.sql.adaptive.enabled", "false")
        assert shuffled.rdd.getNumPartitions() == 7

    with writers_session.for_run(RunId("r2")) as spark:
        assert spark.conf.get(PARTITIONS) == "2", "the profile's"


def test_every_session_setting_that_may_be_written_is_one_that_spark_lets_a_session_have(writers_session: Any) -> None:
    """A setting that Spark takes only at the start of the JVM would have no effect, or would end each run."""
    with writers_session.for_run(RunId("r3")) as spark:
        assert all(spark.conf.isModifiable(key) for key in get_args(SessionKey))


def test_hudi_sends_a_configuration_without_the_source_of_each_property(writers_session: Any, tmp_path: Path) -> None:
    """With the sources Hadoop needs 5 ms to write it for one task. Nothing that Hudi loads may bring them back."""
    with writers_session.for_run(RunId("r10")) as spark:
        options = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"}
        spark.range(3).write.format("hudi").options(**options).save(str(tmp_path / "t"))
        assert spark.read.format("hudi").load(str(tmp_path / "t")).count() == 3

        hadoop = spark.sparkContext._jsc.hadoopConfiguration()
        assert hadoop.get("fs.s3a.impl") is not None, "the defaults are there"
        assert hadoop.getPropertySources("fs.s3a.impl") is None


def test_a_stack_overflow_in_a_task_fails_the_task_and_the_jvm_goes_on(writers_session: Any) -> None:
    """A JVM has several runs. By default Spark ends them all. A pattern with alternatives is matched by recursion."""
    with writers_session.for_run(RunId("r4")) as spark:
        overflowing = spark.range(1).selectExpr("repeat('ab', 100000 + CAST(id AS INT)) RLIKE '^(a|b)*$'")
        with pytest.raises(Py4JJavaError, match="StackOverflowError"):
            overflowing.collect()

    with writers_session.for_run(RunId("r5")) as spark:
        assert spark.range(10).count() == 10


def test_the_stages_of_a_run_are_counted_while_they_run_and_when_they_have_ended(
    writers_session: Any, tmp_path: Path
) -> None:
    """Tasks, bytes and core time are those of the run alone, also of a job whose stage was skipped."""
    released = tmp_path / "released"

    def wait(waits: bool) -> None:
        while waits and not released.exists():
            time.sleep(0.05)

    stages, others = writers_session.stages(RunId("r6")), writers_session.stages(RunId("r7"))
    with writers_session.for_run(RunId("r6")) as spark:
        spark.conf.set("spark.sql.adaptive.enabled", "false")
        context = spark.sparkContext
        assert stages.done() == StagesDone()

        doubled = context.parallelize(range(100), 4).map(lambda n: (n % 3, n)).reduceByKey(lambda a, b: a + b, 2)
        doubled.count()
        first = stages.done(at_the_end=True)
        doubled.collect()  # its first stage is skipped
        second = stages.done(at_the_end=True)

        slow = threading.Thread(
            target=inheritable_thread_target(lambda: context.parallelize([False, True], 2).foreach(wait))
        )
        slow.start()
        until = time.monotonic() + 60  # where tasks end fast, Spark writes the newest counts with its next heartbeat
        while (meanwhile := stages.done()) is None or (meanwhile.tasks_active, meanwhile.tasks_done) != (1, 9):
            assert time.monotonic() < until, meanwhile
            time.sleep(0.05)
        released.touch()
        slow.join()
        third = stages.done(at_the_end=True)

    assert (first.jobs, first.stages, first.stages_done, first.tasks, first.tasks_done) == (1, 2, 2, 6, 6)
    assert (second.jobs, second.stages, second.tasks_done, second.stage) == (2, 3, 8, None)
    assert (meanwhile.tasks, meanwhile.stages_done) == (10, 3)
    assert meanwhile.stage is not None
    assert (third.tasks, third.tasks_done, third.tasks_active, third.stage) == (10, 10, 0, None)
    assert third.core_seconds > second.core_seconds
    assert others.done() == StagesDone()


def test_bytes_that_a_run_reads_and_writes_are_counted(writers_session: Any, tmp_path: Path) -> None:
    """What the tasks wrote is on the disk, and what they read is as much."""
    stages = writers_session.stages(RunId("r8"))
    with writers_session.for_run(RunId("r8")) as spark:
        spark.range(100_000).write.parquet(str(tmp_path / "out"))
        written = stages.done(at_the_end=True)
        spark.read.parquet(str(tmp_path / "out")).selectExpr("sum(id)").collect()
        read = stages.done(at_the_end=True)

    on_disk = sum(file.stat().st_size for file in (tmp_path / "out").glob("*.parquet"))
    assert written.bytes_written == on_disk
    assert read.bytes_written == on_disk
    assert 0 < read.bytes_read <= 2 * on_disk
