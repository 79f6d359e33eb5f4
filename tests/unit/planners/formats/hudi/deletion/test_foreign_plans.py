"""A pending plan that names files outside its table holds its service back, and is reported. No other plan is held."""

from __future__ import annotations

import json
import shutil
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from lakewarden.planners.decide import ServiceState, decide
from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.hudi.deletion.foreign import (
    ForeignPlan,
    Stray,
    blockers,
    foreign_plan_for,
    named_folders,
    stray_folder,
)
from lakewarden.planners.formats.hudi.deletion.readers import named_by
from lakewarden.planners.formats.hudi.metadata.names import Action, Layout, parse
from lakewarden.planners.formats.hudi.metadata.payloads import decode
from lakewarden.planners.formats.hudi.metadata.properties import read_table_properties
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.decision import Blocked
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Mode, Policy, Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.planners.ports import Observation
from lakewarden.planners.storage import LocalStorage, storage_for
from lakewarden.planners.storage.inside import Home
from lakewarden.planners.triggers import NumCommits
from tests.support.hudi.hudi_table import HudiTable
from tests.unit.planners.formats.hudi.test_fixtures import NAMES, unpacked

BASE, LOG = "a-0_0-1-2_20260101000000000.parquet", ".a-0_20260101000000000.log.1_0-1-2"
EVERY = set(HUDI.services)


@pytest.fixture(params=[6, 9])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> HudiTable:
    made = HudiTable(tmp_path / "wh" / "trips", version=request.param, clock=ManualClock(), zone=UTC)
    made.commit_write(made.begin_write())
    return made


def observed(table: HudiTable, previous: Observation | None = None, *, location: str | None = None) -> Observation:
    at = location or str(table.folder)
    registered = Table(id=TableId("trips"), format="hudi", location=at, options=HudiTableOptions(writers="none"))
    return HUDI.observe(registered, storage_for(at), previous, now=table.clock.now())


def held(view: TableView) -> set[Service]:
    return {service for service in HUDI.services for h in view.blockers if h.concerns(service)}


def refused(table: HudiTable) -> set[Service]:
    """Return the services that a program would refuse by its own observation."""
    location = str(table.folder)
    return {one for one in HUDI.services if foreign_plan_for(one, location, storage_for(location)) is not None}


def put(table: HudiTable, action: str, record: dict[str, Any], *, inflight: bool = False) -> str:
    """Put a plan on the timeline."""
    time = table.next_time()
    content = json.dumps(record).encode()
    table.put(f"{time}.{action}.requested", b"" if inflight else content)
    if inflight:
        table.put(f"{time}.{action}.inflight", content)
    return time


def clean(*paths: str, partitions: tuple[str, ...] = ()) -> dict[str, Any]:
    files = {"p0": [{"filePath": path} for path in paths]} if paths else {}
    return {"filePathsToBeDeletedPerPartition": files, "partitionsToBeDeleted": list(partitions)}


def compaction(partition: str = "p0", *, base: str | None = BASE, **more: Any) -> dict[str, Any]:
    one = {"dataFilePath": base, "deltaFilePaths": [LOG], "partitionPath": partition, "fileId": "a-0", **more}
    return {"operations": [one]}


def clustering(partition: str = "p0", **more: Any) -> dict[str, Any]:
    one = {"dataFilePath": None, "deltaFilePaths": [], "partitionPath": partition, "fileId": "a-0", **more}
    return {"clusteringPlan": {"inputGroups": [{"slices": [one]}]}}


def rollback(partition: str = "p0", **more: Any) -> dict[str, Any]:
    request = {"partitionPath": partition, "fileId": "", "latestBaseInstant": "", **more}
    return {
        "instantToRollback": {"commitTime": "20260101000000000", "action": "deltacommit"},
        "RollbackRequests": [request],
    }


def own(table: HudiTable) -> list[tuple[str, dict[str, Any]]]:
    """Return plans of every kind, as Hudi makes them for this table, however its path is spelled."""
    at, odd = table.folder, "dt=2026-01-01 10%3A00/größe=ü x"
    return [
        ("clean", clean(f"file:{at}/p0/{BASE}", f"file://{at}/p0/{LOG}", f"{at}/{odd}/{BASE}", partitions=("p1", odd))),
        ("clean", {"filesToBeDeletedPerPartition": {"p0": [BASE], "": [LOG], odd: [LOG]}}),
        ("compaction", compaction()),
        ("compaction", compaction("", base=None)),
        ("compaction", compaction("p0", base=f"file:{at}/p0/{BASE}")),
        ("compaction", compaction("/p0", baseInstantTime="20260101000000000")),
        ("logcompaction", compaction(odd)),
        ("rollback", rollback(filesToBeDeleted=[f"file:{at}/p0/{BASE}"])),
        ("rollback", rollback("", logBlocksToBeDeleted={f"file:{at}/{LOG}": 1}, fileId="a-0", latestBaseInstant="1")),
        ("rollback", {"instantToRollback": {"commitTime": "1", "action": "commit"}, "RollbackRequests": None}),
        (
            "replacecommit" if table.version == 6 else "clustering",
            clustering(dataFilePath=f"file:{at}/p0/{BASE}", deltaFilePaths=[LOG]),
        ),
    ]


def foreign(table: HudiTable, path: str) -> list[tuple[str, dict[str, Any], set[Service]]]:
    """Return plans that name `path` wherever a plan can, each with the services that it holds back."""
    cluster = "replacecommit" if table.version == 6 else "clustering"
    return [
        ("clean", clean(f"file:{table.folder}/p0/{BASE}", path), {Service.CLEAN}),
        ("clean", {"filesToBeDeletedPerPartition": {"p0": [path]}}, {Service.CLEAN}),
        ("compaction", compaction(base=path), {Service.COMPACTION}),
        ("compaction", compaction(deltaFilePaths=[LOG, path]), {Service.COMPACTION}),
        ("compaction", compaction(fileId=path), {Service.COMPACTION}),
        ("compaction", compaction(bootstrapFilePath=path), {Service.COMPACTION}),
        ("logcompaction", compaction(deltaFilePaths=[path]), {Service.LOG_COMPACTION}),
        (cluster, clustering(dataFilePath=path), {Service.CLUSTERING}),
        (cluster, clustering(deltaFilePaths=[path]), {Service.CLUSTERING}),
        ("rollback", rollback(filesToBeDeleted=[path]), EVERY),
        ("rollback", rollback(logBlocksToBeDeleted={path: 1}), EVERY),
        ("rollback", rollback(fileId=path, latestBaseInstant="1"), EVERY),
    ]


def test_a_tables_own_plans_hold_nothing_back(table: HudiTable) -> None:
    """The test has plans of every kind and spelling, judged by the daemon and by the program."""
    for action, record in own(table):
        put(table, action, record)
    assert held(observed(table).view) == set()
    assert refused(table) == set()


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("kind", range(12))
@pytest.mark.parametrize("spelled", ["file:{}/p0/f", "file://{}/p0/f", "{}/f", "../../other/f"])
def test_a_plan_that_names_a_foreign_file_is_not_executed(
    tmp_path: Path, version: int, kind: int, spelled: str
) -> None:
    """Every field of every plan counts. The services by which Hudi would execute the plan are blocked with its name,
    and the program refuses them by an observation of its own.
    """
    table = HudiTable(tmp_path / "wh" / "trips", version=version, clock=ManualClock(), zone=UTC)
    table.commit_write(table.begin_write())
    path = spelled.format(tmp_path / "wh" / "other")
    action, record, services = foreign(table, path)[kind]

    time = put(table, action, record)

    view = observed(table).view
    assert held(view) == refused(table) == services
    assert f"{action} {time} names" in view.blockers[0].reason
    assert path.rpartition("/")[2] in view.blockers[0].reason
    assert f"{time}.{action}.requested" in view.blockers[0].remedy


@pytest.mark.parametrize(
    "partition", ["../whole_dir", "..", ".", "p0/../..", "//etc", ".hoodie", ".hoodie/timeline", ""]
)
def test_a_partition_that_is_no_folder_of_data_is_not_deleted(table: HudiTable, partition: str) -> None:
    """A partition is deleted with everything below its folder."""
    (table.folder.parent / "whole_dir").mkdir()
    put(table, "clean", clean(f"file:{table.folder}/p0/{BASE}", partitions=("p1", partition)))
    assert held(observed(table).view) == refused(table) == {Service.CLEAN}


def test_a_table_without_partitions_may_say_that_its_only_one_is_empty(tmp_path: Path) -> None:
    """Hudi says so of a table that was emptied, and then deletes no folder (`CleanActionExecutor.clean`)."""
    properties = {"hoodie.table.partition.fields": ""}
    table = HudiTable(tmp_path / "t", version=9, clock=ManualClock(), zone=UTC, properties=properties)
    table.commit_write(table.begin_write())
    put(table, "clean", {"filePathsToBeDeletedPerPartition": {"": []}, "partitionsToBeDeleted": [""]})
    assert held(observed(table).view) == refused(table) == set()


def test_a_partition_that_is_a_link_out_of_the_table_is_not_deleted(table: HudiTable) -> None:
    """Files in it are not deleted either, because the link is on their path."""
    elsewhere = table.folder.parent / "elsewhere"
    elsewhere.mkdir()
    (table.folder / "linked").symlink_to(elsewhere)
    put(table, "clean", clean(partitions=("linked",)))
    put(table, "compaction", compaction("linked"))
    assert held(observed(table).view) == refused(table) == {Service.CLEAN, Service.COMPACTION}


def test_plans_that_name_the_link_by_which_the_table_is_reached_are_its_own(table: HudiTable) -> None:
    """The table is registered where the link leads. One folder has one table, whichever path leads to it."""
    link = table.folder.parent / "link"
    link.symlink_to(table.folder)
    put(table, "clean", clean(f"file:{link}/p0/{BASE}", f"file://{link}/p0/{LOG}"))
    put(table, "rollback", rollback(filesToBeDeleted=[f"file:{link}/p0/{BASE}"]))
    assert held(observed(table).view) == refused(table) == set()


def test_a_table_that_is_spelled_as_hadoop_does_has_its_timeline_inside(table: HudiTable) -> None:
    """A worker has `s3a://` for `s3://`. Otherwise none of its services would run."""

    class OnS3(LocalStorage):
        """The table's folder, as a bucket."""

        def read(self, location: str, *, limit: int = 64 * 2**20) -> bytes:
            return super().read(location.replace("s3a://bucket/trips", str(table.folder)), limit=limit)

    found = read_table_properties("s3a://bucket/trips", OnS3())
    assert found.timeline_folder.startswith("s3a://bucket/trips/.hoodie")
    assert stray_folder("s3a://bucket/trips", found) is None


def test_a_copied_table_is_told_from_the_one_it_was_copied_from(table: HudiTable) -> None:
    """Its pending plans name the original's files. None is executed, the table is called a copy, and the remedy is
    named.
    """
    time = put(table, "clean", clean(f"file:{table.folder}/p0/{BASE}"))
    original = observed(table).view
    assert held(original) == set()
    copy = table.folder.parent / "copy"
    shutil.copytree(table.folder, copy)

    view = observed(table, location=str(copy)).view

    [blocker] = view.blockers
    assert blocker.services == {Service.CLEAN}
    assert f"looks like a copy of the one in file:{table.folder}" in blocker.reason
    assert f"{copy}/.hoodie/" in blocker.remedy
    assert f"{time}.clean.requested" in blocker.remedy


def test_what_would_be_refused_is_no_plan_to_be_carried_out(table: HudiTable) -> None:
    """A table in mode `plan` is reported as blocked, and not as ready to run."""
    put(table, "clean", clean("file:/wh/other/p0/f"))
    view = observed(table).view
    policy = Policy(trigger=NumCommits(at_least=1))
    decision = decide(
        service=Service.CLEAN,
        view=view,
        policy=policy,
        service_state=ServiceState(mode=Mode.PLAN),
        now=table.clock.now(),
    )
    assert isinstance(decision, Blocked)
    assert "names file:/wh/other/p0/f, which lies outside the table" in decision.reason


def test_a_plan_in_flight_is_judged_by_what_either_file_says(table: HudiTable) -> None:
    """Older releases execute the plan of the inflight file, newer ones that of the request."""
    put(table, "clean", clean("file:/wh/other/p0/f"), inflight=True)
    assert held(observed(table).view) == refused(table) == {Service.CLEAN}


def test_a_foreign_plan_of_the_metadata_table_holds_back_everything(table: HudiTable) -> None:
    """Hudi executes it as a part of every commit to the table."""
    table.properties = {"hoodie.table.metadata.partitions": "files"}
    table.set_properties(kind="MERGE_ON_READ")
    beside = table.home / "metadata" / ".hoodie" / ("timeline" if table.version >= 8 else "")
    beside.mkdir(parents=True)
    plan = beside / f"{table.next_time()}.clean.requested"
    plan.write_text(json.dumps(clean(f"file:{table.home}/metadata/files/f")))
    assert held(observed(table).view) == refused(table) == set()
    plan.write_text(json.dumps(clean(f"file:{table.folder}/p0/{BASE}")))
    assert held(observed(table).view) == refused(table) == EVERY


@pytest.mark.parametrize("name", [".temp", "history"])
def test_a_folder_of_hudis_that_leads_out_of_the_table_holds_back_everything(table: HudiTable, name: str) -> None:
    """Hudi writes and deletes there, wherever a link leads. A metadata table behind a link is refused before."""
    elsewhere = table.folder.parent / "trips2"
    elsewhere.mkdir()
    folder = (
        (table.home / "archived" if table.version == 6 else table.timeline / name)
        if name == "history"
        else table.home / name
    )
    folder.symlink_to(elsewhere)
    assert held(observed(table).view) == EVERY
    folder.unlink()
    assert held(observed(table).view) == set()


@pytest.mark.parametrize("path", ["../../../trips2/.hoodie", "/wh/trips2", "file:/wh/trips2"])
def test_a_folder_that_the_properties_put_outside_the_table_lets_nothing_be_executed(
    table: HudiTable, path: str
) -> None:
    """The program reads the properties right before. Folders that they do not name are inside."""
    location = str(table.folder)
    storage = storage_for(location)
    properties = read_table_properties(location, storage)
    assert stray_folder(location, properties, named=named_folders(location, storage)) is None
    key = "hoodie.archivelog.folder" if table.version == 6 else "hoodie.timeline.history.path"
    table.properties = {key: path}
    table.set_properties(kind="MERGE_ON_READ")
    assert "which" in str(stray_folder(location, properties, named=named_folders(location, storage)))


@pytest.mark.parametrize("line", ["p0/../../trips2/p0/f.parquet", "../trips2/f.parquet", "/wh/trips2/f", "file:/wh/f"])
def test_a_marker_that_leads_out_of_the_table_lets_nothing_be_executed(table: HudiTable, line: str) -> None:
    """Hudi makes the rollback of what was begun from its markers, and executes it in the same call."""
    write = table.begin_write()
    markers = table.home / ".temp" / write
    markers.mkdir(parents=True)
    (markers / "MARKERS.type").write_text("TIMELINE_SERVER_BASED")
    (markers / "MARKERS0").write_text(f"p0/{BASE}.marker.CREATE\np0/{LOG}.marker.APPEND\n")
    assert refused(table) == set()
    (markers / "MARKERS1").write_text(f"p0/{BASE}.marker.CREATE\n{line}.marker.CREATE\n")
    assert refused(table) == EVERY
    table.commit_write(write)
    assert refused(table) == set()


def test_a_write_that_says_it_writes_outside_the_table_lets_nothing_be_executed(table: HudiTable) -> None:
    """Without markers, Hudi undoes what the write names."""
    for stats, services in (
        ({"p0": [{"fileId": "a-0", "path": f"p0/{LOG}", "prevCommit": "1"}], "": [{"fileId": "b-0"}]}, set[Service]()),
        ({"../trips2": [{"fileId": "a-0"}]}, EVERY),
    ):
        time = table.next_time()
        table.put(f"{time}.deltacommit.requested")
        table.put(f"{time}.deltacommit.inflight", json.dumps({"partitionToWriteStats": stats}).encode())
        assert refused(table) == services


def test_a_completed_plan_is_history(table: HudiTable) -> None:
    """A moved table keeps such plans on its timeline until they are archived. They are not executed any more."""
    for action, record, _ in foreign(table, "file:/wh/other/f"):
        time = put(table, action, record)
        table.complete(time, action)
    assert held(observed(table).view) == refused(table) == set()


def test_a_verdict_is_read_once_unless_it_was_foreign(table: HudiTable, tmp_path: Path) -> None:
    """A repaired link lets the service continue without a restart. A plan that was judged inside is not decoded again
    at each observation.
    """
    (tmp_path / "disk").mkdir()
    link = table.folder.parent / "other_way"
    link.symlink_to(tmp_path / "disk")
    put(table, "clean", clean(f"file:{link}/p0/{BASE}"))
    first = observed(table)
    assert held(first.view) == {Service.CLEAN}
    link.unlink()
    link.symlink_to(table.folder)
    second = observed(table, first)
    assert held(second.view) == set()
    link.unlink()
    assert held(observed(table, second).view) == set()
    assert refused(table) == {Service.CLEAN}  # the program's own observation remembers nothing


def test_a_plan_that_cannot_be_read_lets_nothing_be_executed(table: HudiTable) -> None:
    """Nothing shows which files it names."""
    table.put(f"{table.next_time()}.rollback.requested", b"Obj\x01 half of it")
    with pytest.raises(TemporaryError, match="cannot be read"):
        foreign_plan_for(Service.CLEAN, str(table.folder), storage_for(str(table.folder)))


@pytest.mark.parametrize("name", NAMES)
def test_no_plan_of_hudis_own_is_foreign_where_it_was_made(name: str, tmp_path: Path) -> None:
    """The test judges every plan on real timelines of every version, in the place for which it was made, with the
    number of paths that it names.
    """
    folder, judged, homes = unpacked(name, tmp_path), 0, set()
    for file in sorted(folder.rglob("*.requested")):
        found = parse(file.name, Layout.V1)
        record = decode(file.read_bytes())
        if found is None or record is None:
            continue
        named = list(named_by(found.action, record, location="/nowhere", partitioned=True))
        homes |= {one.home for one in named} - {None}
        assert all(one.home or one.path.startswith("/nowhere/") for one in named)
        judged += len(named)
    assert len(homes) == 1  # each whole path names its table
    assert judged > 5
    [home] = homes
    assert Home(str(home)).why_outside(f"{home}/p0/f") is None


@pytest.mark.parametrize(
    ("action", "conditions"),
    [
        (Action.CLEAN, []),
        (Action.ROLLBACK, []),
        (Action.CLUSTERING, ["no .inflight of 20261201000000000"]),
        (Action.COMPACTION, ["no .inflight of 20261201000000000", "no log file with 20261201000000000 in its name"]),
        (Action.LOGCOMPACTION, ["no .inflight of 20261201000000000", "no log file with 20261201000000000 in its name"]),
    ],
)
def test_a_remedy_names_the_conditions_under_which_a_plan_may_be_deleted(action: Action, conditions: list[str]) -> None:
    """A plan that was begun has left files, and in the layout of releases before 1.0 log files bear the time of the
    plan of a compaction. Without the plan, such files would become part of the table, or their rows would be separate.
    """
    plan = ForeignPlan(
        action=action,
        time="20261201000000000",
        stray=Stray(path="/other/a.parquet", why="lies elsewhere", home="/other"),
        services=frozenset(),
        file="/lake/t/.hoodie/timeline/20261201000000000.requested",
    )
    (blocker,) = blockers([plan])
    remedy = blocker.remedy or ""
    assert f"delete {plan.file}" in remedy
    assert all(condition in remedy for condition in conditions)
    assert ("Otherwise copy the table again" in remedy) is bool(conditions)
