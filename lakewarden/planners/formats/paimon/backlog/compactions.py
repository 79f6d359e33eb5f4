"""The last full compaction of a table, and the commits since.

A compaction of a table with a primary key is full where all that it wrote is at the highest level: then each bucket
that it touched is one sorted run. Every compaction of an append table counts as one. A snapshot of this kind that names
no file is a merge of manifests (`sys.compact_manifest`), and no compaction.

Source: `org.apache.paimon.mergetree.compact.CompactStrategy.pickFullCompaction` of Paimon 1.3.1. Its output level is
`num-levels` - 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from zlib import crc32

from lakewarden.planners.formats.paimon.backlog.manifests_read import ManifestReading, Totals
from lakewarden.planners.formats.paimon.metadata.files import VanishedError
from lakewarden.planners.formats.paimon.metadata.heads import run_of
from lakewarden.planners.formats.paimon.metadata.history import History
from lakewarden.planners.formats.paimon.metadata.schemas import Schema
from lakewarden.planners.formats.paimon.metadata.snapshots import Snapshot
from lakewarden.planners.formats.paimon.options.core_options import POSTPONED, BucketMode
from lakewarden.planners.formats.paimon.options.service_options import CompactionOptions, CompactStrategy
from lakewarden.planners.model.errors import PermanentError

_MOST = 64
"""So many compactions are looked at, the newest, until one of them was full."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SinceCompaction:
    """The newest full compaction, and how many write commits came after it: `commits`. Where none is found these are
    all that were looked at, and `since` is the oldest of them. `any_commits` are those after any compaction, which was
    at `any_since`. `idle` are the snapshots of the kind of a compaction that changed no file.
    """

    last: Snapshot | None
    commits: int
    any_commits: int
    since: datetime | None
    any_since: datetime | None
    idle: frozenset[int]


@dataclass(kw_only=True, slots=True)
class Compactions:
    """Tells full compactions from others. `known` are those that were looked at before, by their manifest lists. None
    is one that changed no file. What cannot be told is a fault.
    """

    reading: ManifestReading
    schema: Schema
    known: dict[str, bool | None]
    faults: list[str]

    def since(self, history: History) -> SinceCompaction:
        """Return what came after the last full compaction."""
        made = [snapshot for snapshot in reversed(history.snapshots) if snapshot.is_compaction]
        last, idle = self._looked_through(made)
        compactions = [snapshot for snapshot in made if snapshot.id not in idle]
        kept = {snapshot.delta for snapshot in made}
        for name in [name for name in self.known if name not in kept]:
            del self.known[name]
        newest = compactions[0].id if compactions else 0
        after = _writes(history.snapshots, 0 if last is None else last.id)
        begun = history.snapshots[0].at if history.snapshots else None
        return SinceCompaction(
            last=last,
            commits=len(after),
            any_commits=len(_writes(history.snapshots, newest)),
            since=begun if last is None else last.at,
            any_since=compactions[0].at if compactions else begun,
            idle=frozenset(idle),
        )

    def _looked_through(self, made: Sequence[Snapshot]) -> tuple[Snapshot | None, set[int]]:
        """Return the newest full compaction, and which of the others have changed no file. Those of Lakewarden have."""
        last: Snapshot | None = None
        idle = set[int]()
        for snapshot in made[:_MOST]:
            if run_of(snapshot.user) is not None and (last is not None or not self.schema.has_key):
                last = last or snapshot
                continue
            full, fault = self._is_full(snapshot)
            if full is None:
                idle.add(snapshot.id)
            elif last is None:
                last = snapshot if full else None
                self.faults.extend(fault)
        return last, idle

    def _is_full(self, compaction: Snapshot) -> tuple[bool | None, Sequence[str]]:
        """Return whether a compaction was full, None if it changed no file, and why that cannot be told."""
        if compaction.delta in self.known:
            return self.known[compaction.delta], ()
        keyed = self.schema.has_key
        try:
            manifests = self.reading.listed(compaction.delta, compaction.delta_size)
            digests_read = self.reading.digests
            wanted = manifests if keyed else ()
            new = self.reading.read([manifest for manifest in wanted if manifest.name not in digests_read])
            digests = [
                *(digest for _, digest in new),
                *(digests_read[manifest.name] for manifest in wanted if manifest.name in digests_read),
            ]
        except VanishedError:  # it was expired meanwhile
            return not keyed, ()
        except PermanentError as wrong:
            return not keyed, [str(wrong)] if keyed else []
        if len(digests) < len(wanted):  # there was no time for all of them
            return False, ()
        added = [level for digest in digests for _, _, level in digest.added]
        whole = not keyed or (bool(added) and min(added) >= self.schema.options.levels - 1)
        full = self.known[compaction.delta] = whole if manifests else None
        return full, ()


def _writes(snapshots: Sequence[Snapshot], after: int) -> Sequence[Snapshot]:
    return [snapshot for snapshot in snapshots if snapshot.id > after and snapshot.is_write]


# The buckets of a table, with their sorted runs.
#
# Source: `org.apache.paimon.mergetree.Levels.numberOfSortedRuns` of Paimon 1.3.1: each file of level 0 is a sorted run,
# and each other level that has files is one.

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
    pending = [bucket for bucket in buckets if is_pending(bucket, schema)]
    return Holdings(
        files=sum(bucket.files for bucket in buckets),
        bytes=sum(bucket.bytes for bucket in buckets),
        rows=sum(tally.rows for tally in totals.values()),
        small=sum(bucket.small for bucket in buckets),
        level_0=sum(bucket.level_0 for bucket in buckets) if keyed else 0,
        partitions=len({bucket.partition for bucket in buckets}),
        buckets=len(buckets),
        most_runs=max((bucket.runs for bucket in buckets), default=0) if keyed else 0,
        pending=len(pending),
        pending_files=sum(bucket.files if keyed else bucket.small for bucket in pending),
        pending_bytes=sum(bucket.bytes for bucket in pending),
        pending_small=sum(bucket.small for bucket in pending),
        at_trigger=sum(bucket.runs >= options.trigger for bucket in buckets) if keyed else 0,
        fullest=max(
            pending, key=lambda bucket: (bucket.runs if keyed else bucket.small, bucket.bytes, bucket), default=None
        ),
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
    by_bucket: dict[tuple[bytes, int], list[int]] = {}
    for (partition, bucket, level), tally in totals.items():
        sums = by_bucket.get((partition, bucket))
        if sums is None:
            sums = by_bucket[partition, bucket] = [0, 0, 0, 0, 0, 0]
        sums[0] += tally.files
        sums[1] += tally.bytes
        sums[2] += tally.small
        if level:
            sums[5] += 1
        else:
            sums[3] += tally.files
            sums[4] += tally.bytes
    return [Bucket(partition, bucket, *sums) for (partition, bucket), sums in by_bucket.items()]


# Which buckets one run compacts. Pure.


def chosen(
    totals: Totals, schema: Schema, options: CompactionOptions, *, most_bytes: int, turn: str = ""
) -> Sequence[Bucket]:
    """Return the buckets that a run compacts: those that readers pay most for first, at most `most_bytes` of them. The
    first is taken whatever its size is. Buckets in which Paimon may find nothing come last. Each `turn` has another
    order of them, so that none of them keeps the others waiting for ever.
    """

    def rank(bucket: Bucket) -> tuple[bool, int, int, Bucket]:
        certain = is_certain(bucket, schema)
        cost = bucket.runs if schema.has_key else bucket.small
        return certain, cost if certain else crc32(f"{turn}.{bucket}".encode()), bucket.bytes, bucket

    worthwhile = [bucket for bucket in buckets_of(totals) if _is_worthwhile(bucket, schema, options)]
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
