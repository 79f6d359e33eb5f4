"""What a Hudi table's metadata means for its services."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.hudi.options.table_options import FilesystemLock, HudiTableOptions
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.model.instant import Fate, InstantKind, RunId, Service, Step
from lakewarden.planners.model.table import Policy, Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.planners.ports import Observation
from lakewarden.planners.storage import storage_for
from lakewarden.planners.triggers import NumCommits
from tests.support.hudi.hudi_look import made
from tests.support.hudi.hudi_table import HudiTable, avro, commit_content

NO_PLAN = avro(
    {"type": "record", "name": "HoodieRequestedReplaceMetadata", "fields": [
        {"name": "clusteringPlan", "type": ["null", "string"]}]},
    {"clusteringPlan": None},
)  # fmt: skip
CLUSTERING = avro(
    {"type": "record", "name": "HoodieRequestedReplaceMetadata", "fields": [
        {"name": "clusteringPlan", "type": {"type": "record", "name": "HoodieClusteringPlan", "fields": [
            {"name": "inputGroups", "type": {"type": "array", "items": "string"}}]}}]},
    {"clusteringPlan": {"inputGroups": []}},
)  # fmt: skip


def view_of(table: HudiTable, *, policies: tuple[Service, ...] = (), **options: Any) -> TableView:
    return observation_of(table, policies=policies, **options).view


def observation_of(
    table: HudiTable, *, policies: tuple[Service, ...] = (), ago: timedelta = timedelta(0), **options: Any
) -> Observation:
    registered = Table(
        id=TableId("trips"),
        format="hudi",
        location=str(table.folder),
        options=HudiTableOptions(**({"writers": "none"} | options)),
        policies={service: Policy(trigger=NumCommits(at_least=1)) for service in policies},
    )
    return HUDI.observe(registered, storage_for(registered.location), None, now=table.clock.now() - ago)


def held_back(view: TableView) -> set[Service]:
    return {service for service in HUDI.services for h in view.blockers if h.concerns(service)}


def served(table: HudiTable) -> HudiTable:
    """Give the table a completed write, which proves its zone."""
    table.commit_write(table.begin_write())
    return table


def test_a_table_with_a_proved_zone_and_without_writers_is_free(tmp_path: Path) -> None:
    """This is the reference for all that follows."""
    assert held_back(view_of(served(made(tmp_path)))) == set()


def test_a_write_without_a_heartbeat_holds_back_nothing_and_is_told_after_a_moment(tmp_path: Path) -> None:
    """It has failed, or its writer is not LAZY. No service there can make it fail. Its first heartbeat may come a
    moment after its first file, and a clean undoes no write that has shown none.
    """
    table = served(made(tmp_path))
    time = table.begin_write(heartbeat=False)
    young = view_of(table)
    assert (held_back(young), young.notes) == (set(), {})
    assert HUDI.endangered(young, Service.CLEAN, step=Step.COMMIT, instant=None) == ()
    table.clock.advance(timedelta(minutes=1))
    view = view_of(table)
    assert held_back(view) == set()
    (note,) = view.notes[Service.ROLLBACK]
    assert note.startswith(f"write {time} is in flight without a heartbeat")
    assert "failed_writes: lazy" in note


def test_a_write_without_a_heartbeat_holds_back_the_compactions_that_would_hide_its_rows(tmp_path: Path) -> None:
    """This holds below table version 8, and only for compactions that are planned after it. They are not begun only to
    be given up.
    """
    table = served(made(tmp_path, version=6))
    plan = table.plan_compaction()
    table.begin_write(heartbeat=False)
    table.clock.advance(timedelta(minutes=1))
    assert held_back(view_of(table)) == {Service.LOG_COMPACTION}
    table.remove(f"{plan}.compaction.requested")
    assert held_back(view_of(table)) == {Service.COMPACTION, Service.LOG_COMPACTION}


def test_a_view_with_a_write_that_shows_no_heartbeat_is_not_kept(tmp_path: Path) -> None:
    """Its first heartbeat comes without a change of the token."""
    table = served(made(tmp_path))
    time = table.begin_write(heartbeat=False)
    table.clock.advance(timedelta(hours=1))
    assert observation_of(table).keep_until == table.clock.now()
    table.beat(time)
    table.clock.advance(timedelta(seconds=5))
    assert observation_of(table).keep_until == table.clock.now() + timedelta(minutes=3, seconds=-5)


def test_an_executor_is_judged_by_hudis_own_interval(tmp_path: Path) -> None:
    """Another client that executes a plan of ours beats once a minute, and must look alive in between."""
    table = served(made(tmp_path))
    ours, theirs = table.plan_compaction(run="run-1"), table.plan_compaction()
    table.start(ours, "compaction")
    table.start(theirs, "compaction")
    pending = view_of(table).timeline.pending(Service.COMPACTION)
    assert [i.time for i in pending] == [ours, theirs]
    for instant in pending:
        assert instant.last_beat is not None
        assert instant.guarded_until == instant.last_beat + timedelta(minutes=3)
        assert instant.guarded_until > table.clock.now() + timedelta(minutes=2)


@pytest.mark.parametrize("name", ["savepoint.inflight", "restore.requested", "restore.inflight"])
def test_a_savepoint_or_restore_in_flight_holds_back_everything(tmp_path: Path, name: str) -> None:
    """Its needs are not known yet."""
    table = served(made(tmp_path))
    table.put(f"{table.next_time()}.{name}")
    assert held_back(view_of(table)) == set(HUDI.services)


def test_an_instant_in_the_future_holds_back_everything_until_then(tmp_path: Path) -> None:
    """What is planned before that time sorts before the commit. A little difference between two clocks is usual."""
    table = served(made(tmp_path))
    newest = table.clock.now()
    found = observation_of(table, ago=timedelta(minutes=10))
    assert held_back(found.view) == set(HUDI.services)
    assert any("is dated 10m ahead of this daemon's clock" in one.reason for one in found.view.blockers)
    assert found.keep_until is not None
    assert found.keep_until <= newest
    assert held_back(observation_of(table, ago=timedelta(seconds=20)).view) == set()


def test_an_unknown_table_version_holds_back_everything(tmp_path: Path) -> None:
    """A future version is shown as far as it can be read, and left alone."""
    table = served(made(tmp_path, version=10))
    assert held_back(view_of(table)) == set(HUDI.services)
    assert len(view_of(table).timeline.instants) == 1


def test_without_a_lock_the_remedy_is_the_yaml_to_write(tmp_path: Path) -> None:
    """An operator copies it into the configuration."""
    (blocker,) = view_of(served(made(tmp_path)), writers="live").blockers
    assert "lock:\n      provider: zookeeper" in blocker.remedy
    assert "writers: none" in blocker.remedy


def test_the_filesystem_lock_is_a_warning(tmp_path: Path) -> None:
    """It holds nothing back, but an operator should know it."""
    view = view_of(served(made(tmp_path)), writers="live", lock=FilesystemLock(provider="filesystem"))
    assert view.blockers == ()
    assert "is not exclusive" in view.warnings[0]


def test_writers_of_another_zone_hold_back_everything(tmp_path: Path) -> None:
    """The times are read correctly nevertheless."""
    table = served(made(tmp_path, zone=ZoneInfo("America/Los_Angeles")))
    view = view_of(table)
    assert held_back(view) == set(HUDI.services)
    assert timedelta(0) < table.clock.now() - view.timeline.instants[0].requested_at < timedelta(seconds=5)


@pytest.mark.parametrize("version", [6, 9])
def test_a_compaction_whose_request_was_archived_is_still_one(tmp_path: Path, version: int) -> None:
    """On a merge-on-read table every completed commit is a compaction."""
    table = made(tmp_path, version=version)
    table.commit_write(table.begin_write())
    table.complete(table.next_time(), "commit")
    assert view_of(table).timeline.instants[-1].stands_for is Service.COMPACTION
    assert view_of(table).backlogs[Service.COMPACTION].commits == 0


@pytest.mark.parametrize("version", [6, 9])
def test_a_log_compaction_whose_request_was_archived_is_still_one(tmp_path: Path, version: int) -> None:
    """It is completed as writes are, and archiving deletes requests first. Until archiving ended, or for ever if it was
    killed, it was taken for a write that came without the table's lock.
    """
    table = made(tmp_path, version=version)
    table.commit_write(table.begin_write())
    time = table.next_time()
    table.put(f"{time}.logcompaction.requested", CLUSTERING)
    table.complete(time, "logcompaction", commit_content({}, operation="LOG_COMPACT"))
    table.complete(table.next_time(), "deltacommit", commit_content({}))
    whole = [one.stands_for for one in view_of(table).timeline.instants]
    (table.timeline / f"{time}.logcompaction.requested").unlink()

    assert whole == [InstantKind.WRITE, Service.LOG_COMPACTION, InstantKind.WRITE]
    assert [one.stands_for for one in view_of(table).timeline.instants] == whole
    assert view_of(table).faults == ()


def test_layout_1_tells_clustering_from_a_write_by_its_plan(tmp_path: Path) -> None:
    """Both are replacecommits. An empty request is a write's."""
    table = made(tmp_path, version=6)
    for content in (NO_PLAN, CLUSTERING, b""):
        table.put(f"{table.next_time()}.replacecommit.requested", content)
    kinds = [i.stands_for for i in view_of(table).timeline.instants]
    assert kinds == [InstantKind.WRITE, Service.CLUSTERING, InstantKind.WRITE]


@pytest.mark.parametrize(
    ("service", "action"), [(Service.CLUSTERING, "clustering"), (Service.LOG_COMPACTION, "logcompaction")]
)
def test_a_plan_that_was_given_up_counts_for_nothing(tmp_path: Path, service: Service, action: str) -> None:
    """It was completed without a file, because a write may have found it. No run succeeded on it, and the service is as
    due as before. A rewrite with files counts, whichever client signed it.
    """
    table = made(tmp_path)
    for _ in range(3):
        table.commit_write(table.begin_write())
    for extra in ({"lakewarden.given_up": "run-1"}, {"lakewarden.run": "run-2"}):
        time = table.next_time()
        table.put(f"{time}.{action}.requested", CLUSTERING)
        table.complete(time, action, json.dumps({"extraMetadata": extra, "partitionToWriteStats": {}}).encode())
        view = view_of(table, policies=(service,))
        given_up = "lakewarden.given_up" in extra

        assert view.faults == ()
        assert view.timeline.fate(run=RunId("run-1"), instant=time) is (Fate.ABSENT if given_up else Fate.COMPLETED)
        assert view.backlogs[service].commits == (3 if given_up else 0)


def test_a_write_that_ends_after_the_compactions_request_counts_in_layout_2(tmp_path: Path) -> None:
    """The compaction cannot have merged it, although the write began earlier. Layout 1 has no completion times."""
    for version, commits in ((6, 0), (9, 1)):
        table = made(tmp_path / str(version), version=version)
        write = table.begin_write()
        plan = table.plan_compaction()
        table.commit_write(write)
        table.complete(plan, "compaction")
        assert view_of(table).backlogs[Service.COMPACTION].commits == commits


def test_a_clean_has_seen_what_its_metadata_says(tmp_path: Path) -> None:
    """Commits are counted from there, not from the request of the clean."""
    table = made(tmp_path)
    first = table.begin_write()
    table.commit_write(first)
    table.commit_write(table.begin_write())
    clean = table.plan_clean()
    table.complete_clean(clean, seen=first)
    assert view_of(table).backlogs[Service.CLEAN].commits == 1


@pytest.mark.parametrize(
    "half", [b"#half", b"\x00\xff\x13garbage", b"hoodie.table.name=trips\nhoodie.table.type=MERGE_ON"]
)
def test_properties_are_read_from_their_backup_while_they_are_replaced(tmp_path: Path, half: bytes) -> None:
    """It is the only whole copy for a moment. Without it, trying again may help, or there is no table. Half a type is
    no type.
    """
    table = served(made(tmp_path))
    properties = table.home / "hoodie.properties"
    properties.rename(table.home / "hoodie.properties.backup")
    assert view_of(table).name == "trips"
    properties.write_bytes(half)
    view = view_of(table)
    assert (view.name, view.kind) == ("trips", "MERGE_ON_READ")
    (table.home / "hoodie.properties.backup").unlink()
    with pytest.raises(TemporaryError, match="half-written or damaged"):
        view_of(table)
    properties.unlink()
    with pytest.raises(PermanentError, match=r"no hoodie\.properties"):
        view_of(table)


@pytest.mark.parametrize("content", [b"", b"O", b"Obj\x01garbage", b"{", b"[]", b"{}", b"\xff\xfe"])
def test_no_content_of_a_plan_raises(tmp_path: Path, content: bytes) -> None:
    """Any content of the file is at most a fault that names it."""
    table = served(made(tmp_path))
    table.put(f"{table.next_time()}.compaction.requested", content)
    (fault,) = view_of(table).faults
    assert ".compaction.requested" in fault


def test_a_plan_cut_off_anywhere_is_a_fault(tmp_path: Path) -> None:
    """This also holds if the cut leaves whole records."""
    table = served(made(tmp_path))
    name = f"{table.plan_compaction()}.compaction.requested"
    whole = (table.timeline / name).read_bytes()
    assert view_of(table).faults == ()
    for end in range(len(whole)):
        table.put(name, whole[:end])
        assert len(view_of(table).faults) == 1, end


@pytest.mark.parametrize(
    ("version", "action", "says"),
    [
        (9, "compaction", ["If there is no {time}.compaction.inflight, delete {time}.compaction.requested"]),
        (6, "compaction", ["no log file with {time} in its name", "Otherwise restore it"]),
        (9, "clustering", ["stop the table's writers", "delete {time}.clustering.requested"]),
        (9, "clean", ["delete {time}.clean.requested, and {time}.clean.inflight"]),
        (9, "deltacommit", ["restore it from a backup", "Do not delete it"]),
    ],
)
def test_a_file_that_broke_off_blocks_with_what_is_safe_to_do(
    tmp_path: Path, version: int, action: str, says: list[str]
) -> None:
    """A plan is planned anew, if nothing was made by it. A commit is not to be had again."""
    table = served(made(tmp_path, version=version))
    time = table.next_time()
    table.put(f"{time}_{time}.deltacommit" if action == "deltacommit" else f"{time}.{action}.requested", b"Obj")
    view = view_of(table)
    assert len(view.faults) == 1
    assert [one for one in says if one.format(time=time) not in str(view.mending)] == []


def test_a_table_without_a_completed_instant_is_new_and_not_suspect(tmp_path: Path) -> None:
    """Its zone cannot be proved yet, but no service has anything to do. The first commit proves it."""
    table = made(tmp_path, zone=ZoneInfo("Asia/Kolkata"))
    first = table.begin_write()
    assert view_of(table).blockers == ()

    table.commit_write(first)
    assert held_back(view_of(table)) == set(HUDI.services)


def test_base_files_that_cannot_be_read_here_hold_back_every_service(tmp_path: Path) -> None:
    """A clean of them was left unfinished again and again, because a class was missing."""
    lance = view_of(served(made(tmp_path / "a", properties={"hoodie.table.base.file.format": "LANCE"})))
    assert held_back(lance) == set(HUDI.services)
    assert "LANCE" in lance.blockers[0].reason
    orc = view_of(served(made(tmp_path / "b", properties={"hoodie.table.base.file.format": "ORC"})))
    assert held_back(orc) == {Service.COMPACTION, Service.CLUSTERING}
