"""Services of a directory that its store does not allow are told before the daemon starts."""

from __future__ import annotations

import pytest

from lakewarden.planners.formats.directory.format import DirectoryFormat
from lakewarden.planners.formats.directory.options import CompactionOptions, DirectoryTableOptions
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Policy, Table, TableId
from lakewarden.planners.triggers import NumCommits

DISK, S3, HDFS = "/data/clicks", "s3://lake/clicks", "hdfs://nn/clicks"


@pytest.mark.parametrize(
    ("location", "service", "publication", "blocked"),
    [
        (DISK, Service.TTL, None, False),
        (S3, Service.TTL, None, True),
        (DISK, Service.ORPHANS, None, False),
        (S3, Service.ORPHANS, None, False),
        (HDFS, Service.ORPHANS, None, True),
        (DISK, Service.COMPACTION, "exchange", False),
        (DISK, Service.COMPACTION, "with_duplicates", True),
        (S3, Service.COMPACTION, "exchange", True),
        (S3, Service.COMPACTION, "with_duplicates", False),
        (HDFS, Service.COMPACTION, "with_duplicates", True),
    ],
)
def test_a_service_that_is_blocked_by_the_store_is_told(
    location: str, service: Service, publication: str | None, blocked: bool
) -> None:
    """The directory can be observed. The reason says what to change."""
    options = None if publication is None else CompactionOptions.model_validate({"publication": publication})
    table = Table(
        id=TableId("clicks"),
        format="directory",
        location=location,
        options=DirectoryTableOptions.model_validate({"restore_horizon": "7d"}),
        policies={service: Policy(trigger=NumCommits(at_least=1), options=options)},
    )
    found = list(DirectoryFormat().contradictions(table))
    assert [(one.key, one.blocks) for one in found] == [(f"services.{service}", True)] * blocked
    assert all("remove" in one.reason for one in found)
