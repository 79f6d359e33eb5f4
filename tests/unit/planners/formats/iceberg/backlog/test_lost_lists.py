"""Lost manifest lists and manifests. What expires is no obstacle, and what stays blocks each deletion by name."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.planners.formats.iceberg.backlog.memo import HeldDigests
from lakewarden.planners.formats.iceberg.metadata.digests import ManifestDigest
from lakewarden.planners.formats.iceberg.metadata.files import Tallies
from lakewarden.planners.formats.iceberg.metadata.manifests import (
    ContentFile,
    EntryStatus,
    FileContent,
    read_manifest_list,
)
from lakewarden.planners.formats.iceberg.metadata.metadata import UnusableFileError
from lakewarden.planners.formats.iceberg.options.service_options import CompactionOptions
from lakewarden.planners.formats.iceberg.rewriting.selection import thresholds
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import Service
from tests.support.iceberg.iceberg_look import CountingStorage, look
from tests.support.iceberg.iceberg_table import IcebergTable
from tests.support.iceberg.iceberg_values import MIB, a_metadata, a_snapshot, deletes_of, files
from tests.support.values import NOW
from tests.unit.planners.formats.iceberg.backlog.test_needs import appends, needs

DAY = timedelta(days=1)
SERVICES = (Service.COMPACTION, Service.CLEAN, Service.ORPHANS)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def table(tmp_path: Path, clock: ManualClock) -> IcebergTable:
    return IcebergTable(tmp_path / "trips", clock=clock)


def _lose(table: IcebergTable, snapshot: int) -> str:
    file = Path(table.snapshots[snapshot].line["manifest-list"])
    file.unlink()
    return file.name


def test_a_snapshot_that_stays_is_named_before_a_run(table: IcebergTable) -> None:
    """Nothing is deleted while nobody knows what it needs. A compaction is not concerned."""
    first = table.append()
    table.append()
    name = _lose(table, first)
    [blocker] = look(table, *SERVICES).view.blockers
    assert f"snapshot {first} is missing its manifest list" in blocker.reason
    assert name in blocker.reason
    assert f"by_id({first})" in blocker.remedy
    assert blocker.services == {Service.CLEAN, Service.ORPHANS}


def test_a_snapshot_that_expires_blocks_orphans_until_clean_has_expired_it(
    table: IcebergTable, clock: ManualClock
) -> None:
    """Orphans cannot tell which files it needs. Without a clean policy both are blocked."""
    first = table.append()
    clock.advance(20 * DAY)
    table.append()
    clock.advance(DAY)
    _lose(table, first)
    [blocker] = look(table, *SERVICES).view.blockers
    assert blocker.services == {Service.ORPHANS}
    [blocker] = look(table, Service.ORPHANS).view.blockers
    assert blocker.concerns(Service.CLEAN)


def test_the_remedy_for_a_tagged_snapshot_removes_the_tag_first(table: IcebergTable) -> None:
    """Its name is in the reason."""
    first = table.append()
    table.append()
    table.refs["audit"] = {"snapshot-id": first, "type": "tag"}
    table.save()
    _lose(table, first)
    [blocker] = look(table, *SERVICES).view.blockers
    assert f"snapshot {first} (the tag 'audit')" in blocker.reason
    assert "remove the tag 'audit', and then expire it" in blocker.remedy


@pytest.mark.parametrize("what", ["an empty list", "half a list", "a lost manifest"])
def test_damage_of_a_tagged_snapshot_is_named_before_a_run(table: IcebergTable, clock: ManualClock, what: str) -> None:
    """A tag keeps its snapshot for ever. The list of the snapshot is read, and its manifests are looked for."""
    table.append()
    tagged = table.append()
    table.rewrite_manifests()
    clock.advance(20 * DAY)
    table.append()
    table.refs["audit"] = {"snapshot-id": tagged, "type": "tag"}
    table.save()
    clock.advance(DAY)
    path = _damaged(table, tagged, what)
    [blocker] = look(table, *SERVICES).view.blockers
    kind = "manifest list" if "list" in what else "manifest"
    assert f"snapshot {tagged} (the tag 'audit') is missing its {kind} {path}" in blocker.reason
    assert blocker.services == {Service.CLEAN, Service.ORPHANS}
    assert "remove the tag 'audit', and then expire it by hand" in blocker.remedy
    assert f"by_id({tagged})" in blocker.remedy
    assert f"snapshot_ids => ARRAY({tagged})" in blocker.remedy
    assert blocker.code == "manifest_list_lost"
    del table.refs["audit"]
    table.save()
    assert look(table, *SERVICES).view.blockers == ()


def _damaged(table: IcebergTable, snapshot: int, what: str) -> Path:
    path = Path(table.snapshots[snapshot].line["manifest-list"])
    if what == "a lost manifest":
        path = table.snapshots[snapshot].manifests[-1].path
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[: 0 if what == "an empty list" else -20])
    return path


def test_a_lost_manifest_that_the_table_needs_itself_is_not_expired(table: IcebergTable) -> None:
    """The remedy would not help, and would take the tag."""
    tagged = table.append()
    table.refs["audit"] = {"snapshot-id": tagged, "type": "tag"}
    table.append()
    _damaged(table, tagged, "a lost manifest")
    [blocker] = look(table, Service.ORPHANS).view.blockers
    assert "restore it" in blocker.remedy
    assert "expire" not in blocker.remedy


def test_many_lost_manifests_of_a_tag_are_one_block(table: IcebergTable) -> None:
    """The remedy is the same for each."""
    tagged = [table.append() for _ in range(5)][-1]
    table.refs["audit"] = {"snapshot-id": tagged, "type": "tag"}
    table.rewrite_manifests()
    for manifest in table.snapshots[tagged].manifests:
        manifest.path.unlink()
    assert len(look(table, *SERVICES).view.blockers) == 1


def test_a_list_that_lakewarden_cannot_use_hides_no_lost_one(table: IcebergTable) -> None:
    """The run says what is wrong with it."""
    first, tagged = table.append(), table.append()
    table.refs["audit"] = {"snapshot-id": tagged, "type": "tag"}
    table.append()
    path = Path(table.snapshots[tagged].line["manifest-list"])
    path.write_bytes(path.read_bytes().replace(b"\x08null", b"\x08odd!").replace(b"deflate", b"defl@te"))
    with pytest.raises(UnusableFileError):
        read_manifest_list(path.read_bytes(), path=str(path))
    assert look(table, *SERVICES).view.blockers == ()
    _lose(table, first)
    [blocker] = look(table, *SERVICES).view.blockers
    assert f"snapshot {first} is missing its manifest list" in blocker.reason


def test_lists_are_looked_for_rarely_and_at_once_after_one_was_lost(table: IcebergTable, clock: ManualClock) -> None:
    """A table without a service that deletes is not looked at at all."""
    storage = _Asked()
    first = table.append()
    seen = look(table, *SERVICES, storage=storage)
    table.append()
    seen = look(table, *SERVICES, storage=storage, previous=seen)
    assert storage.asked == 1
    look(table, Service.COMPACTION, storage=storage)
    assert storage.asked == 1
    name = _lose(table, first)
    clock.advance(timedelta(hours=7))
    seen = look(table, *SERVICES, storage=storage, previous=seen)
    assert (storage.asked, len(seen.view.blockers), seen.keep_until) == (2, 1, table.clock.now())
    (table.metadata / name).write_bytes(b"restored")
    seen = look(table, *SERVICES, storage=storage, previous=seen)
    assert (storage.asked, seen.view.blockers) == (3, ())


def test_a_store_that_does_not_tell_blocks_nothing(table: IcebergTable) -> None:
    """What was known before stays known."""
    first = table.append()
    table.append()
    _lose(table, first)
    seen = look(table, *SERVICES)
    again = look(table, *SERVICES, storage=_Silent(), previous=seen)
    assert again.view.blockers == seen.view.blockers
    assert look(table, *SERVICES, storage=_Silent()).view.blockers == ()


class _Asked(CountingStorage):
    asked = 0

    def present(self, location: str, names: Collection[str]) -> Collection[str]:
        self.asked += 1
        return super().present(location, names)


class _Silent(CountingStorage):
    def present(self, location: str, names: Collection[str]) -> Collection[str]:
        raise TemporaryError("the store does not answer")


# Metadata that claims what the files do not have. What can go on goes on; what cannot is blocked by name.


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
