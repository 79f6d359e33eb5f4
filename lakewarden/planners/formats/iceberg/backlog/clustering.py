"""Which file groups a clustering has to rewrite, and which partitions it may take (docs/iceberg.md). Pure.

Iceberg's metadata does not say whether a file is in order. A file counts as in order if a clustering of Lakewarden has
added it. A property of the table remembers those clusterings, because their snapshots may expire.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime

from lakewarden.planners.formats.iceberg.metadata.digests import LiveFile
from lakewarden.planners.formats.iceberg.metadata.manifests import ContentFile
from lakewarden.planners.formats.iceberg.metadata.metadata import TableMetadata
from lakewarden.planners.formats.iceberg.metadata.timeline import stands_for
from lakewarden.planners.formats.iceberg.options.service_options import RewriteOptions
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions
from lakewarden.planners.formats.iceberg.rewriting.selection import Thresholds
from lakewarden.planners.formats.iceberg.writers.cold import left_alone
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.view import WriterActivity

_SNAPSHOT = re.compile(r"\d{1,19}", re.ASCII)

ORDERED = "lakewarden.ordered-by"
"""A property of the table: the snapshots of Lakewarden's clusterings that added files which the table still has. A
snapshot may expire while its files stay."""

_MOST = 1000
"""How many snapshots the property remembers at most. The newest are kept. Files of forgotten snapshots are clustered
once more."""


def ordered_by(metadata: TableMetadata) -> frozenset[int]:
    """Return the snapshots of Lakewarden's clusterings, as far as the metadata or the property knows them. Their files
    are in order.
    """
    clusterings = {snapshot.id for snapshot in metadata.snapshots if stands_for(snapshot) is Service.CLUSTERING}
    return frozenset({*clusterings, *_remembered(metadata.properties)})


def _remembered(properties: Mapping[str, str]) -> tuple[int, ...]:
    return tuple(int(number) for number in properties.get(ORDERED, "").split(",") if _SNAPSHOT.fullmatch(number))


def remembering(metadata: TableMetadata, live: Iterable[int], new: int, *, now: Mapping[str, str]) -> Mapping[str, str]:
    """Return the property with the `new` snapshot of a clustering. Of the earlier snapshots, and of those that the
    table's properties name `now`, it keeps those with files in the table (`live`).
    """
    before, needed = _remembered(now), frozenset(live)
    clusterings = sorted(ordered_by(metadata) - frozenset(before))
    kept = [fromkey for fromkey in dict.fromkeys((*clusterings, *before)) if fromkey in needed and fromkey != new]
    return {ORDERED: ",".join(map(str, (*kept, new)[-_MOST:]))}


def is_worth_clustering(files: Iterable[LiveFile | ContentFile], ordered: frozenset[int], rules: Thresholds) -> bool:
    """Whether enough of a group is not in order: at least `min_input_files` files, or more bytes than the target size
    of a file. Then the whole group is written anew.
    """
    fresh = [file.size for file in files if file.snapshot not in ordered]
    return len(fresh) >= rules.min_input_files or sum(fresh) > rules.target


def untouchable(
    activity: WriterActivity, options: IcebergTableOptions, rewrite: RewriteOptions, now: datetime
) -> Mapping[str, datetime]:
    """Return the partitions that a rewrite by these options may not take now, each with the moment from which it may.
    These are the partitions that every rewrite leaves alone, and those with a write within `untouched_for`.
    """
    touches = (activity.touches or {}).items() if rewrite.untouched_for else ()
    until = {partition: touch.at + rewrite.untouched_for for partition, touch in touches}
    ends = {partition: end for partition, end in until.items() if now < end}
    for partition, end in left_alone(activity, options, now).items():
        ends[partition] = max(end, ends.get(partition, end))
    return ends
