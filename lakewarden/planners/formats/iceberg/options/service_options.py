"""What the owner of an Iceberg table sets for each table service, in Iceberg's own terms."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, model_validator

from lakewarden.planners.formats.iceberg.options.sort_order import parse_sort_order
from lakewarden.planners.settings import Duration, Settings, Size, Within


class RewriteOptions(Settings):
    """What rewrites of data files have in common (`rewrite_data_files`)."""

    target_file_size: Annotated[Size, Within("1B", "1TiB")] | None = None
    """The size that is aimed at (`target-file-size-bytes`); by default the table's own."""

    min_file_size: Annotated[Size, Within("0B", "1TiB")] | None = None
    """Smaller files are rewritten (`min-file-size-bytes`); by default three quarters of the target."""

    max_file_size: Annotated[Size, Within("1B", "1TiB")] | None = None
    """Larger files are rewritten (`max-file-size-bytes`); by default 1.8 times the target."""

    min_input_files: Annotated[int, Within(1, 1_000_000)] = 5
    """So many files of a partition are worth a rewrite whatever their size (`min-input-files`)."""

    delete_file_threshold: Annotated[int, Within(1, 1_000_000)] | None = None
    """A data file with so many delete files is rewritten (`delete-file-threshold`); by default none is for that."""

    delete_ratio_threshold: Annotated[float, Within(0.001, 1)] = 0.3
    """A data file with such a share of rows deleted by deletes of its own is rewritten (`delete-ratio-threshold`)."""

    max_file_group_size: Annotated[Size, Within("1B", "1024TiB")] = Field(default="10GiB", validate_default=True)
    """The most that is rewritten in one piece (`max-file-group-size-bytes`)."""

    max_files: Annotated[int, Within(1, 1_000_000)] = 10_000
    """The most files that one run rewrites; what is left waits for the next one."""

    max_bytes: Annotated[Size, Within("1B", "1024TiB")] = Field(default="100GiB", validate_default=True)
    """The most bytes that one run rewrites; a single group may be larger."""

    max_concurrent_groups: Annotated[int, Within(1, 64)] = 2
    """Groups that are rewritten at a time (`max-concurrent-file-group-rewrites`)."""

    partial_progress: bool = False
    """Commit in several steps, so that a conflict loses only a part (`partial-progress.enabled`)."""

    max_commits: Annotated[int, Within(1, 1000)] = 10
    """With partial_progress: the most commits of one run (`partial-progress.max-commits`)."""


class CompactionOptions(RewriteOptions):
    """Compaction: small files, and files with many deletes, become larger ones (strategy `binpack`)."""

    rewrite_position_deletes: bool = False
    """Also compact the position delete files of the partitions whose data files were rewritten
    (`rewrite_position_delete_files`); those that a writer is at by then are left to it."""

    remove_dangling_deletes: bool = False
    """Also remove deletes that no data file needs any more (`remove-dangling-deletes`). Iceberg's commits drop those
    that are older than every file of the table by themselves."""


class ClusteringOptions(RewriteOptions):
    """Clustering: files are written anew in an order (strategy `sort`), by columns or along a z-curve. One of
    `sort_order` and `zorder`; without both, in the table's own sort order.
    """

    sort_order: str | None = None
    """Columns as in `day DESC NULLS LAST, id`."""

    zorder: tuple[str, ...] = ()
    """Columns of a z-curve."""

    untouched_for: Annotated[Duration, Within("0s", "3650d")] = Field(default="1h", validate_default=True)
    """Only partitions to which nothing was written for so long are taken."""

    @model_validator(mode="after")
    def _one_order(self) -> ClusteringOptions:
        if self.sort_order is not None and self.zorder:
            raise ValueError("sort_order and zorder are two orders: set one of them")
        if self.sort_order is not None:
            parse_sort_order(self.sort_order)
        return self


class CleanOptions(Settings):
    """Clean: old snapshots expire, and the files that they alone need are deleted (`expire_snapshots`)."""

    max_snapshot_age: Annotated[Duration, Within("0s", "3650d")] | None = None
    """Older snapshots expire; by default the table's `history.expire.max-snapshot-age-ms`, else five days. Never less
    than the table option `longest_outage`."""

    min_snapshots_to_keep: Annotated[int, Within(1, 1_000_000)] | None = None
    """The newest of every branch that stay in any case; by default the table's `history.expire.min-snapshots-to-keep`,
    else one."""

    max_snapshots: Annotated[int, Within(1, 1_000_000)] = 5000
    """The most snapshots that one run expires, the oldest first."""


class PrefixMismatch(StrEnum):
    """What to do where files and metadata spell a store differently (`prefix_mismatch_mode`)."""

    REFUSE = "refuse"
    IGNORE = "ignore"


class OrphansOptions(Settings):
    """Orphans: files below the table's folder that no snapshot knows are deleted (`remove_orphan_files`)."""

    older_than: Annotated[Duration, Within("0s", "3650d")] | None = None
    """Younger files may be known to somebody who has not committed them yet. At least 24h, and as long as the table's
    `longest_outage` and `flink_restores`; by default the longest of these and three days."""

    unknown_for: Annotated[Duration, Within("0s", "365d")] = Field(default="1d", validate_default=True)
    """So long a file was unknown to the table, in the listings of two runs, before it is deleted: the first run that
    finds it only takes it down. With 0s one run lists the folder twice, minutes apart."""

    on_prefix_mismatch: PrefixMismatch = PrefixMismatch.REFUSE
    """`refuse` deletes nothing where the metadata names files of another scheme or authority than the listing; `ignore`
    leaves the files alone whose path is known under another one."""


class ArchiveOptions(Settings):
    """Archive: manifests are written anew by partition (`rewrite_manifests`); the log of metadata files is bounded."""

    small_manifests: Annotated[int, Within(2, 1_000_000)] = 20
    """So many manifests below half of `commit.manifest.target-size-bytes` are worth a rewrite."""

    metadata_versions: Annotated[int, Within(1, 1_000_000)] | None = None
    """Let every commit delete metadata files that are older than so many versions: it sets the table's
    `write.metadata.delete-after-commit.enabled` and `write.metadata.previous-versions-max`. By default the table's own
    properties stay as they are."""
