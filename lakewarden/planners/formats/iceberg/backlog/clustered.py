"""Which file groups a clustering has something to do in, and which partitions it may take (docs/iceberg.md). Pure.

Nothing in Iceberg's metadata tells whether a file is in an order. So it goes by who wrote it: what no clustering of
ours has written, as far as the commit that added it is still known, is not in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from lakewarden.planners.formats.iceberg.metadata.digests import LiveFile
from lakewarden.planners.formats.iceberg.metadata.manifests import ContentFile
from lakewarden.planners.formats.iceberg.metadata.metadata import TableMetadata
from lakewarden.planners.formats.iceberg.metadata.timeline import stands_for
from lakewarden.planners.formats.iceberg.options.service_options import ClusteringOptions
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions
from lakewarden.planners.formats.iceberg.rewriting.groups import Thresholds
from lakewarden.planners.formats.iceberg.writers.cold import left_alone
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.view import WriterActivity


def unordered_since(metadata: TableMetadata) -> frozenset[int]:
    """Return the snapshots whose files are not in order: all that are known and are no clustering of ours."""
    return frozenset(one.id for one in metadata.snapshots if stands_for(one) is not Service.CLUSTERING)


def is_worth_clustering(files: Iterable[LiveFile | ContentFile], unordered: frozenset[int], rules: Thresholds) -> bool:
    """Whether a group has so much that is not in order that the whole of it is worth being written anew:
    `min_input_files` files, or more bytes than a file is to have.
    """
    fresh = [one.size for one in files if one.snapshot in unordered]
    return len(fresh) >= rules.min_input_files or sum(fresh) > rules.target


def untouchable(
    activity: WriterActivity, options: IcebergTableOptions, clustering: ClusteringOptions, now: datetime
) -> Mapping[str, datetime]:
    """Return the partitions that no clustering may take now, each with the moment from which it may: those that every
    rewrite leaves alone, and those to which anything was written of late.
    """
    touches = (activity.touches or {}).items()
    until = {partition: touch.at + clustering.untouched_for for partition, touch in touches}
    found = {partition: end for partition, end in until.items() if now < end}
    for partition, end in left_alone(activity, options, now).items():
        found[partition] = max(end, found.get(partition, end))
    return found
