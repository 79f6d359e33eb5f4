"""Which buckets one run compacts. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

from lakewarden.planners.formats.paimon.backlog.buckets import Bucket, buckets_of, is_certain, is_pending
from lakewarden.planners.formats.paimon.backlog.totals import Totals
from lakewarden.planners.formats.paimon.metadata.schemas import Schema
from lakewarden.planners.formats.paimon.options.service_options import CompactionOptions, CompactStrategy


def chosen(
    totals: Totals, schema: Schema, options: CompactionOptions, *, most_bytes: int, turn: str = ""
) -> Sequence[Bucket]:
    """Return the buckets that a run compacts: those that readers pay most for first, at most `most_bytes` of them. The
    first is taken whatever its size is. Buckets in which Paimon may find nothing come last. Each `turn` has another
    order of them, so that none of them keeps the others waiting for ever.
    """

    def rank(one: Bucket) -> tuple[bool, int, int, Bucket]:
        certain = is_certain(one, schema)
        cost = one.runs if schema.has_key else one.small
        return certain, cost if certain else crc32(f"{turn}.{one}".encode()), one.bytes, one

    worthwhile = [one for one in buckets_of(totals) if _is_worthwhile(one, schema, options)]
    worthwhile.sort(key=rank, reverse=True)
    taken: list[Bucket] = []
    left = most_bytes
    for bucket in worthwhile[: options.max_buckets]:
        if taken and bucket.bytes > left:
            continue
        taken.append(bucket)
        left -= bucket.bytes
    return taken


def _is_worthwhile(bucket: Bucket, schema: Schema, options: CompactionOptions) -> bool:
    """Whether a compaction of this strategy would do anything. A minor one picks nothing below the trigger, unless it
    takes each file of level 0 (`ForceUpLevel0Compaction`).
    """
    if not is_pending(bucket, schema):
        return False
    if is_full(schema, options):
        return True
    return bucket.runs >= schema.options.trigger or (schema.options.takes_level_0 and bucket.level_0 > 0)


def is_full(schema: Schema, options: CompactionOptions) -> bool:
    """Whether a compaction merges all sorted runs of a bucket: by its strategy, or because the table knows no other one
    that serves its readers. An append table has one strategy, `changelog-producer=full-compaction` makes changelogs by
    full compactions alone, and some merges need the oldest run: a lookup stands for it.
    """
    own = schema.options
    by_table = not schema.has_key or own.changelog_producer == "full-compaction"
    return by_table or (own.needs_oldest and not own.looks_up) or options.strategy is CompactStrategy.FULL
