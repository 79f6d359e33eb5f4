"""Clean, orphans and markers of Paimon tables on S3. None of it needs a JVM, beyond the knowledge that it lives."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from lakewarden.executors.contract import NothingToDo, Plan
from lakewarden.executors.programs.paimon.clean import CleanSteps
from lakewarden.executors.programs.paimon.client.opened import OpenTable
from lakewarden.executors.programs.paimon.orphans import OrphansSteps
from lakewarden.executors.programs.paimon.partition_commit import PartitionCommitSteps
from lakewarden.executors.programs.paimon.steps.disk import FilesInStore, table_files
from lakewarden.executors.programs.paimon.steps.old_files import mark
from lakewarden.planners.formats.paimon.deletion.names import naming_of
from lakewarden.planners.formats.paimon.options.service_options import (
    CleanOptions,
    OrphansOptions,
    PartitionCommitOptions,
)
from lakewarden.planners.formats.paimon.partitions.names import PaimonPartition, partitions_of
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.errors import PermanentError, YieldError
from lakewarden.planners.model.instant import Service
from tests.support.object_stores.s3_server import S3Server
from tests.support.paimon.paimon_on_s3 import TableOnS3
from tests.support.paimon.paimon_table import PaimonTable, partition_row

AT_ONCE = {"longest_outage": "0s", "flink_restores": "0s", "keep_last_flink_commit": False}
NEWEST = CleanOptions.model_validate({"max_snapshot_age": "0s", "min_snapshots_to_keep": 1})
KNOWN_AT_ONCE = OrphansOptions.model_validate({"unknown_for": "0s", "older_than": "3d"})


class KilledError(BaseException):
    """The process is gone."""


@pytest.fixture
def written(tmp_path: Path, s3_server: S3Server) -> TableOnS3:
    """Return a table of six snapshots: four writes, a compaction and a write."""
    clock = ManualClock(datetime.now(UTC))
    table = PaimonTable(tmp_path / "t", clock=clock)
    for number in range(4):
        table.append(table.file(number % 2), table.file(number % 2, bucket=1))
        clock.advance(timedelta(minutes=1))
    table.compact(user="lakewarden-1")
    table.append()
    clock.advance(timedelta(days=30))
    return TableOnS3(table, s3_server, told=AT_ONCE, age=timedelta(days=10))


def cleaned(there: TableOnS3, *, tell: Callable[[str], None] = lambda _: None) -> Plan | NothingToDo:
    steps = CleanSteps(there.opened(Service.CLEAN, tell=tell), NEWEST)
    plan = steps.plan()
    if isinstance(plan, Plan):
        steps.commit(plan)
    return plan


def test_the_files_that_only_old_snapshots_have_are_deleted(written: TableOnS3) -> None:
    """The plan counts them, and the hint of Paimon's tells the oldest snapshot that is left."""
    steps = CleanSteps(written.opened(Service.CLEAN), NEWEST)
    plan = steps.plan()
    assert isinstance(plan, Plan)
    assert (plan.files_to_delete, plan.files_in_table, plan.versions_to_delete) == (8, 13, 5)
    assert written.needed(1, 2, 3, 4, 5, 6) == written.paths()
    gone = [path for path in written.paths() - written.needed(6) if "bucket-" in path]
    assert plan.bytes_to_delete == sum(written.client.size(f"{written.location}/{path}") for path in gone)
    assert steps.commit(plan) == {"snapshots_expired": 5, "files_deleted": 8}
    assert written.paths() == written.needed(6)
    assert written.read("snapshot/EARLIEST") == "6"
    assert isinstance(cleaned(written), NothingToDo)


def test_a_run_that_is_killed_before_or_after_any_request_is_ended_by_the_next(
    tmp_path: Path, s3_server: S3Server
) -> None:
    """At every moment the newest snapshot has all of its files, and in the end nothing else is there."""
    for killed_at in range(1, 100, 3):
        clock = ManualClock()
        table = PaimonTable(tmp_path / f"t{killed_at}", clock=clock)
        for _ in range(2):
            table.append()
        table.compact(user="lakewarden-1")
        clock.advance(timedelta(days=30))
        there = TableOnS3(table, s3_server, told=AT_ONCE)
        calls = iter(range(killed_at))

        def tell(_: str, calls: Iterator[int] = calls) -> None:
            if next(calls, None) is None:
                raise KilledError

        try:
            cleaned(there, tell=tell)
        except KilledError:
            assert there.needed(3) <= there.paths()
            cleaned(there)
        else:
            assert killed_at > 15
            return
        assert there.paths() == there.needed(3)
    pytest.fail("the run has no end")


def test_a_tag_that_comes_after_the_plan_stops_the_deletion(written: TableOnS3) -> None:
    """The last look is right before each snapshot, as on a disk."""
    steps = CleanSteps(written.opened(Service.CLEAN), NEWEST)
    plan = steps.plan()
    assert isinstance(plan, Plan)
    written.put("tag/tag-kept", json.dumps(written.table.snapshots[2]))
    steps.commit(plan)
    assert written.needed(2, 6) - {"snapshot/snapshot-2"} <= written.paths()


def test_the_success_files_of_tags_stay_and_stop_nothing(written: TableOnS3) -> None:
    """A store names their folder only in a listing."""
    success = written.put("tag/tag-success-file/kept_SUCCESS", "{}")
    assert isinstance(cleaned(written), Plan)
    assert success in written.paths()


def test_a_rollback_after_the_plan_stops_the_deletion(written: TableOnS3) -> None:
    """The snapshot that was to stay is gone. Nothing may be judged by it."""
    steps = CleanSteps(written.opened(Service.CLEAN), NEWEST)
    plan = steps.plan()
    assert isinstance(plan, Plan)
    before = written.paths()
    written.client.rm_file(f"{written.location}/snapshot/snapshot-6")
    written.client.pipe_file(f"{written.location}/snapshot/LATEST", b"5")
    files = written.paths()
    with pytest.raises(YieldError):
        CleanSteps(written.opened(Service.CLEAN), NEWEST).commit(plan)
    assert files == written.paths() == before - {"snapshot/snapshot-6"}


@pytest.mark.parametrize("service", [Service.CLEAN, Service.ORPHANS, Service.PARTITION_COMMIT])
def test_without_the_lock_of_a_catalog_nothing_is_deleted_or_marked(written: TableOnS3, service: Service) -> None:
    """Two writers may have replaced the commits of each other: what nothing names there may be all that is left."""
    opened = written.without_lock(written.opened(service))
    steps: CleanSteps | OrphansSteps | PartitionCommitSteps
    match service:
        case Service.CLEAN:
            steps = CleanSteps(opened, NEWEST)
        case Service.ORPHANS:
            steps = OrphansSteps(opened, KNOWN_AT_ONCE)
        case _:
            steps = PartitionCommitSteps(opened, PartitionCommitOptions())
    before = written.paths()
    with pytest.raises(PermanentError, match="renaming a file"):
        steps.plan()
    assert written.paths() == before


def named(number: int) -> str:
    return f"data-{UUID(int=number)}-0.parquet"


def lost(there: TableOnS3) -> set[str]:
    """Leave files that no snapshot names, and return their paths."""
    return {
        there.put(f"p=0/bucket-0/{named(1)}"),
        there.put(f"p=1/bucket-7/{named(2)}"),
        there.put(f"manifest/manifest-{UUID(int=3)}-0"),
        there.put(f"snapshot/.snapshot-9.{UUID(int=4)}.tmp"),
    }


def swept(there: TableOnS3, options: OrphansOptions = KNOWN_AT_ONCE) -> dict[str, object] | NothingToDo:
    steps = OrphansSteps(there.opened(Service.ORPHANS), options)
    plan = steps.plan()
    return plan if isinstance(plan, NothingToDo) else dict(steps.commit(plan))


def test_old_files_that_nothing_names_are_deleted_and_no_others(written: TableOnS3) -> None:
    """Files of other programs stay, and what a snapshot names."""
    known = written.paths()
    others = {
        written.put("p=0/bucket-0/notes.parquet"),
        written.put(f"p=0/{named(5)}"),
        written.put(f"other.db/t/p=0/bucket-0/{named(6)}"),
    }
    gone = lost(written)
    found = swept(written)
    assert isinstance(found, dict)
    assert found["files_deleted"] == found["bytes_deleted"] == len(gone) == 4
    assert written.paths() == known | others
    assert isinstance(swept(written), NothingToDo)


def test_young_files_stay(written: TableOnS3) -> None:
    """By the time of the store, whatever the clock of the daemon says."""
    lost(written)
    written.age, before = timedelta(days=2), written.paths()
    assert isinstance(swept(written), NothingToDo)
    assert written.paths() == before


def test_a_file_must_be_unknown_in_two_runs(written: TableOnS3) -> None:
    """The first one writes down since when, beside the table."""
    gone, before = lost(written), written.paths()
    patient = KNOWN_AT_ONCE.model_copy(update={"unknown_for": timedelta(days=1)})
    first = swept(written, patient)
    assert isinstance(first, NothingToDo)
    assert "4 unknown files" in first.reason
    assert written.paths() == before
    assert isinstance(swept(written, patient), NothingToDo)
    assert written.client.exists(f"{written.location}/_lakewarden/orphans.seen")
    found = swept(written)
    assert isinstance(found, dict)
    assert before - written.paths() == gone


def test_a_file_that_was_written_again_since_the_listing_stays(written: TableOnS3) -> None:
    gone = lost(written)
    steps = OrphansSteps(written.opened(Service.ORPHANS), KNOWN_AT_ONCE)
    plan = steps.plan()
    assert isinstance(plan, Plan)
    again = written.put(f"p=0/bucket-0/{named(1)}", "another")
    assert steps.commit(plan)["files_deleted"] == len(gone) - 1
    assert written.read(again) == "another"


def test_a_folder_with_letters_that_are_written_in_another_way_is_the_folder(written: TableOnS3) -> None:
    """Paimon escapes the values of partitions. The store's own client must not do it once more."""
    path = written.put(f"p=a%3Ab c%25/bucket-0/{named(8)}")
    files = table_files(written.opened(Service.ORPHANS))
    assert isinstance(files, FilesInStore)
    assert files.in_buckets({named(8)}).found == {named(8): f"{written.location}/{path}"}
    found = written.opened(Service.ORPHANS).look()
    [one] = files.old(naming_of(found.facts.schema), before=written.table.clock.now()).old
    assert one.path == path
    assert files.delete_unchanged([one]) == (one,)
    assert path not in written.paths()


def partition(opened: OpenTable, p: int) -> PaimonPartition:
    found = opened.look(partitions=True)
    assert found.memo.totals is not None
    [one] = [one for one in partitions_of(found.memo.totals, found.facts.schema) if one.row == partition_row(p)]
    return one


def test_a_marker_is_written_and_renewed(written: TableOnS3) -> None:
    """It keeps the time of its creation, as Paimon's own does."""
    opened = written.opened(Service.PARTITION_COMMIT)
    one, at = partition(opened, 1), written.table.clock.now()
    assert mark(opened, one, at=at, snapshot=6)
    first = json.loads(written.read("p=1/_SUCCESS"))
    assert first["creationTime"] == first["modificationTime"] == round(at.timestamp() * 1000)
    assert mark(opened, one, at=at + timedelta(hours=1), snapshot=7)
    second = json.loads(written.read("p=1/_SUCCESS"))
    assert second["creationTime"] == first["creationTime"]
    assert second["modificationTime"] == first["modificationTime"] + 3_600_000


def test_a_partition_without_files_gets_no_marker(written: TableOnS3) -> None:
    """It was dropped meanwhile, and a marker would bring its folder back."""
    opened = written.opened(Service.PARTITION_COMMIT)
    one = partition(opened, 1)
    assert one.name is not None
    dropped = replace(one, name=replace(one.name, folder="p=9"))
    assert not mark(opened, dropped, at=written.table.clock.now(), snapshot=6)
    assert not written.client.exists(f"{written.location}/p=9/_SUCCESS")


def test_a_marker_that_another_program_writes_meanwhile_stands(written: TableOnS3) -> None:
    """It is not replaced by one that is older. The partition is judged again by the next run."""
    theirs = json.dumps({"creationTime": 1, "modificationTime": 2, "by": str(uuid4())})
    seen = list[str]()

    def tell(act: str) -> None:
        if act.startswith("before put") and act.endswith("/_SUCCESS") and not seen:
            seen.append(act)
            written.put("p=1/_SUCCESS", theirs)

    opened = written.opened(Service.PARTITION_COMMIT, tell=tell)
    assert not mark(opened, partition(opened, 1), at=written.table.clock.now(), snapshot=6)
    assert seen
    assert written.read("p=1/_SUCCESS") == theirs
