"""What a writer of a directory sets so that one side alone says when a partition is committed."""

from __future__ import annotations

from collections.abc import Iterator

from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table
from lakewarden.planners.ports import FLINK, SPARK, WriterEngine, WriterOption

ENGINES = (FLINK, SPARK)


def writer_options(table: Table, *, engine: WriterEngine) -> tuple[WriterOption, ...]:
    """Return the options. Those of Flink are options of its filesystem and Hive sinks.

    A policy of Flink's own cannot be switched off by a value: leave out `sink.partition-commit.policy.kind`.
    """
    return tuple(_for_flink() if engine == FLINK else _for_spark(table))


def _for_flink() -> Iterator[WriterOption]:
    yield WriterOption(
        key="sink.rolling-policy.inactivity-interval",
        value="1 min",
        why="a part to which nothing is written is closed, so that its partition can be committed; leave out "
        "sink.partition-commit.policy.kind, by which Flink would commit it before",
    )


def _for_spark(table: Table) -> Iterator[WriterOption]:
    value = "false" if Service.PARTITION_COMMIT in table.policies else "true"
    owner = "Lakewarden's" if Service.PARTITION_COMMIT in table.policies else "Spark's, as by default"
    yield WriterOption(
        key="spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs",
        value=value,
        why=f"the marker is {owner}",
    )
