"""The buckets of a table, with their sorted runs.

Source: `org.apache.paimon.mergetree.Levels.numberOfSortedRuns` of Paimon 1.3.1: each file of level 0 is a sorted run,
and each other level that has files is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lakewarden.planners.formats.paimon.backlog.totals import Totals
from lakewarden.planners.formats.paimon.metadata.schemas import Schema
from lakewarden.planners.formats.paimon.options.core_options import POSTPONED, BucketMode

_LEAST_OF_BUCKETS = 3


class Bucket(NamedTuple):
    """One bucket of one partition, which is a binary row. Of an append table all files are of level 0."""

    partition: bytes
    number: int
    files: int
    bytes: int
    small: int
    level_0: int
    level_0_bytes: int
    levels: int

    @property
    def runs(self) -> int:
        """Return how many sorted runs a reader merges."""
        return self.level_0 + self.levels


@dataclass(frozen=True, kw_only=True, slots=True)
class Holdings:
    """What a snapshot holds: sums over the table, the buckets that a full compaction would rewrite (`pending`), and the
    one of them that has the most sorted runs, or small files (`fullest`).
    """

    files: int = 0
    bytes: int = 0
    rows: int = 0
    small: int = 0
    level_0: int = 0
    partitions: int = 0
    buckets: int = 0
    most_runs: int = 0
    pending: int = 0
    pending_files: int = 0
    pending_bytes: int = 0
    pending_small: int = 0
    at_trigger: int = 0
    fullest: Bucket | None = None


def holdings_of(totals: Totals, schema: Schema) -> Holdings:
    """Return what the sums of the manifests hold."""
    buckets = buckets_of(totals)
    keyed, options = schema.has_key, schema.options
    pending = [one for one in buckets if is_pending(one, schema)]
    return Holdings(
        files=sum(one.files for one in buckets),
        bytes=sum(one.bytes for one in buckets),
        rows=sum(tally.rows for tally in totals.values()),
        small=sum(one.small for one in buckets),
        level_0=sum(one.level_0 for one in buckets) if keyed else 0,
        partitions=len({one.partition for one in buckets}),
        buckets=len(buckets),
        most_runs=max((one.runs for one in buckets), default=0) if keyed else 0,
        pending=len(pending),
        pending_files=sum(one.files if keyed else one.small for one in pending),
        pending_bytes=sum(one.bytes for one in pending),
        pending_small=sum(one.small for one in pending),
        at_trigger=sum(one.runs >= options.trigger for one in buckets) if keyed else 0,
        fullest=max(pending, key=lambda one: (one.runs if keyed else one.small, one.bytes, one), default=None),
    )


def is_pending(bucket: Bucket, schema: Schema) -> bool:
    """Whether a compaction would make the bucket's files fewer, or let readers see them.

    Of an append table with buckets Paimon joins three files or more (`BucketedAppendCompactManager`,
    `FULL_COMPACT_MIN_FILE`).
    """
    if schema.has_key:
        return bucket.level_0 > 0 or bucket.levels > 1 or bucket.number == POSTPONED
    together = _LEAST_OF_BUCKETS if schema.options.bucket_mode is BucketMode.FIXED else schema.options.small_files
    return bucket.small >= max(2, together)


def is_certain(bucket: Bucket, schema: Schema) -> bool:
    """Whether Paimon certainly compacts a bucket that is pending. Of an append table with buckets it leaves out the
    large files before the first small one, and needs more small files than large ones in the rest. Sums do not tell
    the order of the files (`BucketedAppendCompactManager.FullCompactTask` of Paimon 1.3.1).
    """
    if schema.has_key or schema.options.bucket_mode is not BucketMode.FIXED:
        return True
    return bucket.small > bucket.files - bucket.small


def buckets_of(totals: Totals) -> Sequence[Bucket]:
    """Return the buckets with their sums."""
    found: dict[tuple[bytes, int], list[int]] = {}
    for (partition, bucket, level), tally in totals.items():
        sums = found.get((partition, bucket))
        if sums is None:
            sums = found[partition, bucket] = [0, 0, 0, 0, 0, 0]
        sums[0] += tally.files
        sums[1] += tally.bytes
        sums[2] += tally.small
        if level:
            sums[5] += 1
        else:
            sums[3] += tally.files
            sums[4] += tally.bytes
    return [Bucket(partition, bucket, *sums) for (partition, bucket), sums in found.items()]
