"""The `hoodie.*` options of the demo's writers that are about their table. What a writer beside Lakewarden must set
is not among them: `lakewarden writer-options` prints that.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import assert_never

BATCH = "_batch"
"""Under this key a commit bears the batch that it is of, where its writer signs: options with a leading underscore go
into the commit's metadata (`hoodie.datasource.write.commitmeta.key.prefix`).
"""


class TableType(StrEnum):
    """`hoodie.datasource.write.table.type`, as the command line calls it."""

    MOR = "mor"
    COW = "cow"


class Workload(StrEnum):
    """What is written: three regions for ever, or days that pass."""

    REGIONS = "regions"
    DAYS = "days"


def table_options(name: str, *, kind: TableType, workload: Workload) -> Mapping[str, str]:
    """Return what a writer sets about the table itself. Batches are small: no statistics of columns, no server for
    markers and listings.
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
            # upserts find their file group without reading, and small ones go to log files
            return {
                "hoodie.index.type": "BUCKET",
                "hoodie.index.bucket.engine": "SIMPLE",
                "hoodie.bucket.index.num.buckets": "1",
            }
        case Workload.DAYS:
            # every batch leaves small files of its own, which is what clustering is there for
            return {"hoodie.index.type": "SIMPLE", "hoodie.parquet.small.file.limit": "0"}
        case _:
            assert_never(workload)
