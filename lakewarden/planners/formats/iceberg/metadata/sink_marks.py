"""What sinks remember in the summaries of snapshots: how far they have committed.

A sink that starts again follows the parents of its branch's head to its newest mark. If it finds none, it commits again
what it had committed. Each sink has keys of its own, so every key counts that is not Iceberg's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

_OF_ICEBERG = re.compile(
    r"(added|removed|deleted|total)-[\w-]+|changed-partition-count|partition-summaries-included|partitions\..*"
    r"|operation|replace-partitions|source-snapshot-id|wap\.id|published-wap-id|manifests-\w+|entries-processed"
    r"|(engine|iceberg|app)-\w+|spark\.app\.id|trino_\w+|lakewarden\..*|flink\..*|spark\.sql\.streaming\..*"
)
"""Keys that no sink looks for, and the keys of the sinks that are known by what their marks say. Source: Iceberg 1.11,
`SnapshotSummary`, `EnvironmentContext`, `BaseRewriteManifests`, `WapUtil`; Trino 470, `IcebergMetadata`."""

JOB, _OPERATOR, _CHECKPOINT = "flink.job-id", "flink.operator-id", "flink.max-committed-checkpoint-id"
QUERY = "spark.sql.streaming.queryId"


def is_of_a_sink(key: str) -> bool:
    """Whether a key of a summary is one that Iceberg and its engines do not use."""
    return _OF_ICEBERG.fullmatch(key) is None


class SinkMark(NamedTuple):
    """A mark of one sink. `writer` is the job that wrote it, if the `kind` of sink has jobs that follow each other: a
    job that is deployed anew has another id. Else it is empty, and the mark is of no one job.
    """

    kind: str
    writer: str
    part: str = ""


def marks_in(summary: Mapping[str, str]) -> Iterator[SinkMark]:
    """Yield the marks in a snapshot's summary.

    Source: Iceberg 1.11, `flink.sink.SinkUtil`, `spark.source.SparkWrite.findLastCommittedEpochId`, and
    `connect.channel.Coordinator` (`kafka.connect.offsets.<topic>.<group>`).
    """
    if JOB in summary:
        yield SinkMark("Flink", summary[JOB], summary.get(_OPERATOR, ""))
    if QUERY in summary:
        yield SinkMark("Spark", summary[QUERY])
    yield from (SinkMark("", "", key) for key in summary if is_of_a_sink(key))


def shown(mark: SinkMark, summary: Mapping[str, str]) -> str:
    """Return the sink of a mark, for people."""
    if mark.kind == "Flink":
        operator = f", operator {mark.part}" if mark.part else ""
        checkpoint = summary.get(_CHECKPOINT)
        return f"Flink job {mark.writer}{operator}" + ("" if checkpoint is None else f" (checkpoint {checkpoint})")
    return f"the stream {mark.writer} of Spark" if mark.kind else f"the sink that writes {mark.part}"
