"""The session of one run."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from lakewarden.executors.profile import SessionKey
from lakewarden.planners.model.instant import RunId

PARTITIONS = "spark.sql.shuffle.partitions"


@pytest.mark.core
def test_a_run_has_spark_settings_of_its_own_and_leaves_none_behind(writers_session: Any) -> None:
    """They hold for what its thread does, also where Java code asks for the active session, and for no later run."""
    with writers_session.for_run(RunId("r1"), {PARTITIONS: "7"}) as spark:
        active = spark.sparkContext._jvm.org.apache.spark.sql.SparkSession.active()
        assert active.conf().get(PARTITIONS) == "7"
        shuffled = spark.range(100).selectExpr("id % 50 AS key").repartition("key")
        spark.conf.set("spark.sql.adaptive.enabled", "false")
        assert shuffled.rdd.getNumPartitions() == 7

    with writers_session.for_run(RunId("r2")) as spark:
        assert spark.conf.get(PARTITIONS) == "2", "the profile's"


def test_every_session_setting_that_may_be_written_is_one_that_spark_lets_a_session_have(writers_session: Any) -> None:
    """What Spark takes from the start of the JVM alone would be written down in vain, or end each run."""
    with writers_session.for_run(RunId("r3")) as spark:
        assert all(spark.conf.isModifiable(key) for key in get_args(SessionKey))
