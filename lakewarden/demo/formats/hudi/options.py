"""The `hoodie.*` options of the demo's writers that concern their table. The options that a writer beside Lakewarden
must set are not among them: `lakewarden writer-options` prints those.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import assert_never

BATCH = "_batch"
"""The key under which a signed commit names its batch. Options with a leading underscore go into the commit's metadata
(`hoodie.datasource.write.commitmeta.key.prefix`).
"""


class TableType(StrEnum):
    """`hoodie.datasource.write.table.type`, as the command line names it."""

    MOR = "mor"
    COW = "cow"


class Workload(StrEnum):
    """The rows that are written: three regions for ever, or days that pass."""

    REGIONS = "regions"
    DAYS = "days"


def table_options(name: str, *, kind: TableType, workload: Workload) -> Mapping[str, str]:
    """Return what a writer sets about the table itself. Batches are small, so there are no column statistics, and no
    server for markers and listings.
    """
    kinds = {TableType.MOR: "MERGE_ON_READ", TableType.COW: "COPY_ON_WRITE"}
    return {
        "hoodie.table.name": name,
        "hoodie.table.ordering.fields": "version",
        "hoodie.table.timeline.timezone": "UTC",
        "hoodie.datasource.write.table.type": kinds[kind],
        "hoodie.datasource.write.recordkey.field": "order_id",
        "hoodie.datasource.write.partitionpath.field": "region",
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.index.column.stats.enable": "false",
        "hoodie.metadata.index.partition.stats.enable": "false",
        "hoodie.embed.timeline.server": "false",
        "hoodie.write.markers.type": "DIRECT",
        **_index(workload),
    }


def _index(workload: Workload) -> Mapping[str, str]:
    match workload:
        case Workload.REGIONS:
            # an upsert finds its file group without reading; a small upsert goes to log files
            return {
                "hoodie.index.type": "BUCKET",
                "hoodie.index.bucket.engine": "SIMPLE",
                "hoodie.bucket.index.num.buckets": "1",
            }
        case Workload.DAYS:
            # every batch leaves small files of its own, for clustering
            return {"hoodie.index.type": "SIMPLE", "hoodie.parquet.small.file.limit": "0"}
        case _:
            assert_never(workload)
