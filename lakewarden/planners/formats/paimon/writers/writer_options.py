"""The options by which the writers of a Paimon table leave its compaction to Lakewarden.

Source: `org.apache.paimon.CoreOptions` of Paimon 1.3.1. They are options of the table. A running job keeps the options
with which it began.
"""

from __future__ import annotations

from collections.abc import Iterator

from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table
from lakewarden.planners.ports import FLINK, SPARK, WriterEngine, WriterOption

ENGINES = (FLINK, SPARK)


def writer_options(table: Table, *, engine: WriterEngine, hook_url: str) -> tuple[WriterOption, ...]:
    """Return the options. The report of partitions that are done is Flink's alone."""
    return (_switch(table), *(_report(hook_url) if engine == FLINK else ()))


def _report(hook_url: str) -> Iterator[WriterOption]:
    why = "a partition that is done is announced; it needs partition.idle-time-to-done of the job"
    yield WriterOption(key="partition.mark-done-action", value="success-file,http-report", why=why)
    yield WriterOption(key="partition.mark-done-action.http.url", value=hook_url, why=why)


def _switch(table: Table) -> WriterOption:
    compacts = Service.COMPACTION in table.policies
    why = (
        "Lakewarden compacts the table, and its writers do not; they expire no snapshots, and create and expire no tags"
        if compacts
        else "the writers compact the table and expire its snapshots themselves, as by default"
    )
    return WriterOption(key="write-only", value="true" if compacts else "false", why=why)
