"""The options of each table service, in Paimon's own terms."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from lakewarden.planners.settings import Duration, Settings, Size, Within


class CompactStrategy(StrEnum):
    """How much of a bucket a compaction merges (`compact_strategy`)."""

    FULL = "full"
    MINOR = "minor"


class CompactionOptions(Settings):
    """Compaction: the sorted runs of a bucket become fewer, and small files of append tables become larger ones."""

    strategy: CompactStrategy = CompactStrategy.FULL
    """`full` merges all sorted runs of a bucket into one. `minor` merges those that Paimon's universal compaction
    picks, in buckets with at least `num-sorted-run.compaction-trigger` sorted runs. If readers wait for level 0,
    `minor` takes each bucket with files of level 0. With `changelog-producer=full-compaction`, and where a merge needs
    the oldest run, `minor` is `full`. Append tables know one strategy."""

    max_bytes: Annotated[Size, Within("1B", "1024TiB")] = Field(default="100GiB", validate_default=True)
    """The most bytes of buckets that one run compacts, those with the most sorted runs first. A single bucket may be
    larger. The other buckets wait for the next run."""

    max_buckets: Annotated[int, Within(1, 100_000)] = 1000
    """The most buckets that one run compacts. Of a table without buckets it is the number of partitions."""

    max_concurrent_buckets: Annotated[int, Within(1, 64)] = 2
    """How many buckets are compacted at a time. Each is a thread of the worker's JVM."""


class CleanOptions(Settings):
    """Clean: old snapshots expire, and the files that only they need are deleted (`expire_snapshots`)."""

    max_snapshot_age: Annotated[Duration, Within("0s", "3650d")] | None = None
    """Older snapshots expire. The age of a snapshot counts from the commit after it. The default is the table's
    `snapshot.time-retained`, else one hour. It is never less than the table option `longest_outage`."""

    min_snapshots_to_keep: Annotated[int, Within(1, 1_000_000)] | None = None
    """How many of the newest snapshots always stay. The default is the table's `snapshot.num-retained.min`, else
    10."""

    max_snapshots: Annotated[int, Within(1, 100_000)] = 1000
    """The most snapshots that one run lets expire, the oldest first. The next run follows at once."""


class ArchiveOptions(Settings):
    """Archive: small manifests, and those that delete files, become fewer (`compact_manifest`). There are no
    options.
    """


class ClusteringOptions(Settings):
    """Clustering: refused, because Paimon's drops rows that are written meanwhile. There are no options."""


class OrphansOptions(Settings):
    """Orphans: files below the table's folder that nothing names are deleted (`remove_orphan_files`)."""

    older_than: Annotated[Duration, Within("0s", "3650d")] | None = None
    """Only older files are deleted, because a younger one may belong to a commit that has not ended. It is at least
    24h, and at least the table's `longest_outage` and `flink_restores`. The default is the longest of these and three
    days."""

    unknown_for: Annotated[Duration, Within("0s", "365d")] = Field(default="1d", validate_default=True)
    """For how long a file must be unknown to the table, in the listings of two runs, before it is deleted. It is at
    least the table's `longest_outage`. The first run that finds the file only remembers it."""

    max_files: Annotated[int, Within(1, 1_000_000)] = 100_000
    """The most files that one run deletes, the oldest first. The next run follows at once."""
