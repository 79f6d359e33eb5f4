"""Metadata that claims what the files do not have. What can go on goes on; what cannot is blocked by name."""

from __future__ import annotations

from datetime import timedelta

import pytest

from lakewarden.planners.formats.iceberg.backlog.memo import HeldDigests
from lakewarden.planners.formats.iceberg.metadata.digests import ManifestDigest
from lakewarden.planners.formats.iceberg.metadata.files import Tallies
from lakewarden.planners.formats.iceberg.metadata.manifests import ContentFile, EntryStatus, FileContent
from lakewarden.planners.formats.iceberg.options.service_options import CompactionOptions
from lakewarden.planners.formats.iceberg.rewriting.selection import thresholds
from lakewarden.planners.model.instant import Service
from tests.support.iceberg.iceberg_values import MIB, a_metadata, a_snapshot, deletes_of, files
from tests.support.values import NOW
from tests.unit.planners.formats.iceberg.backlog.test_needs import appends, needs

MINUTE = timedelta(minutes=1)
COMMITS = (Service.COMPACTION, Service.CLUSTERING, Service.CLEAN, Service.ARCHIVE, Service.TABLE_STATS)


@pytest.mark.parametrize("records", [0, -1])
def test_files_without_rows_in_their_manifest_are_left_by_a_rewrite(records: int) -> None:
    """Iceberg refuses a rewrite that seems to add rows. The other files of the partition are rewritten."""
    snapshots = appends(3)
    found = needs(a_metadata(*snapshots), files(5) + files(6, records=records))
    assert found.backlogs[Service.COMPACTION].files == 5
    assert Service.COMPACTION in needs(a_metadata(*snapshots), files(6, records=records)).at_rest


@pytest.mark.parametrize("records", [0, -1])
def test_files_without_rows_are_tallied_and_named(records: int) -> None:
    """Files without deletes are only counted. None of these is too small for a rewrite."""
    digest = ManifestDigest(
        (
            ContentFile(
                path=f"/lake/trips/{number}.parquet",
                content=FileContent.DATA,
                status=EntryStatus.ADDED,
                file_format="PARQUET",
                spec=0,
                partition="p=0",
                size=MIB,
                records=records if number < 6 else 10,
                snapshot=1,
                sequence=1,
                references=None,
            )
            for number in range(9)
        ),
        spec=0,
    )
    metadata = a_metadata(*appends(3))
    held = HeldDigests({"m": digest}, [])
    holdings, _ = held.holdings(metadata, thresholds(CompactionOptions(), {}), Tallies())
    assert [(tally.files, tally.odd) for tally in holdings.tallies.values()] == [(9, 3)]
    assert holdings.rowless == held.everything().rowless == 6


def test_two_deletion_vectors_of_one_file_block_what_reads_rows() -> None:
    """Snapshots can still be expired: that reads no row."""
    [one, other] = files(2)
    vectors = [deletes_of(file, is_vector=True) for file in (one, other, one)]
    [blocker] = needs(a_metadata(*appends(3), format_version=3), [one, other, *vectors]).blockers
    assert "a data file in p=0 has two deletion vectors" in blocker.reason
    assert blocker.concerns(Service.COMPACTION)
    assert not blocker.concerns(Service.CLEAN)
    assert needs(a_metadata(*appends(3), format_version=3), [one, other, *vectors[:2]]).blockers == ()


def test_nothing_is_committed_before_a_commit_of_the_future() -> None:
    """Iceberg would refuse it. The reason names the moment, and the clocks."""
    ahead = a_snapshot(4, ago=-10 * MINUTE)
    for metadata in (a_metadata(*appends(3), ahead), a_metadata(*appends(3), updated_at=NOW + 10 * MINUTE)):
        found = needs(metadata, files(5))
        assert found.waits.keys() == set(COMMITS)
        rest = found.at_rest[Service.COMPACTION]
        assert "10m ahead of this daemon's clock" in rest.reason
        assert rest.again_at == found.changes_at == NOW + 10 * MINUTE
    slightly = needs(a_metadata(*appends(3), updated_at=NOW + timedelta(seconds=20)), files(5))
    assert Service.COMPACTION in slightly.backlogs
