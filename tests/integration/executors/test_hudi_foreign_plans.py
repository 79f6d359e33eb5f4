"""On real Spark: no plan makes Hudi touch files outside its table, whatever call would execute it."""

from __future__ import annotations

import dataclasses
import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pytest

from lakewarden.executors.contract import Failed, FailureKind, Outcome, Succeeded
from lakewarden.planners.model.instant import Service, Step

if TYPE_CHECKING:
    from tests.support.hudi.orders import Orders
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark

NEWEST_ONLY: dict[str, Any] = {"policy": "KEEP_LATEST_FILE_VERSIONS", "file_versions_retained": 1}


def _plan_of(orders: Orders, pattern: str) -> tuple[Path, dict[str, Any], Any]:
    """Return a plan's file, its record, and its schema."""
    [file] = (orders.path / ".hoodie" / "timeline").glob(pattern)
    with file.open("rb") as content:
        reader: Any = fastavro.reader(content)
        [record] = reader
        return file, record, reader.writer_schema


def _rewrite(file: Path, schema: Any, record: Mapping[str, Any]) -> None:
    with file.open("wb") as content:
        fastavro.writer(content, schema, [record])
    checksum = file.with_name(f".{file.name}.crc")
    checksum.unlink(missing_ok=True)


def _other_table(tmp_path: Path) -> Path:
    """Return a folder with three files of another table. Its path begins as the table's does, which is all that Hudi
    checks for a rollback.
    """
    folder = tmp_path / "orders2" / "p0"
    folder.mkdir(parents=True)
    for n in range(3):
        (folder / f"{n}.parquet").write_text("another table's")
    return folder


def _assert_refused(outcome: Outcome, step: Step, name: str) -> None:
    assert isinstance(outcome, Failed)
    assert outcome.kind is FailureKind.PERMANENT
    assert outcome.step is step
    assert name in outcome.reason
    assert "nothing is executed" in outcome.reason


@pytest.mark.core
def test_a_clean_of_another_tables_files_deletes_nothing(driver: Driver, orders: Orders, tmp_path: Path) -> None:
    """It deletes neither those files, nor the others that the plan names, nor those of the plans beside it."""
    driver.carry_out(orders, Service.COMPACTION)
    clean = orders.leave_clean(driver, **NEWEST_ONLY)
    folder = _other_table(tmp_path)
    file, record, schema = _plan_of(orders, f"{clean.instant}.clean.requested")
    [one, *_] = next(iter(record["filePathsToBeDeletedPerPartition"].values()))
    record["filePathsToBeDeletedPerPartition"]["p0"] += [
        {**one, "filePath": f"file:{path}"} for path in sorted(folder.iterdir())
    ]
    _rewrite(file, schema, record)
    before = orders.data_files()

    outcome = driver.carry_out(orders, Service.CLEAN, instant=clean.instant, **NEWEST_ONLY)

    assert len(list(folder.iterdir())) == 3
    assert orders.data_files() == before
    _assert_refused(outcome, Step.PLAN, f"file:{folder}/0.parquet")
    assert orders.timeline(f"{clean.instant}.clean.requested")  # a person's to judge


def test_a_partition_outside_the_table_is_not_deleted(driver: Driver, orders: Orders, tmp_path: Path) -> None:
    """`../whole_dir` would be deleted with all its content."""
    driver.carry_out(orders, Service.COMPACTION)
    clean = orders.leave_clean(driver, **NEWEST_ONLY)
    folder = _other_table(tmp_path)
    file, record, schema = _plan_of(orders, f"{clean.instant}.clean.requested")
    _rewrite(file, schema, {**record, "partitionsToBeDeleted": ["../orders2"]})

    outcome = driver.carry_out(orders, Service.CLEAN, instant=clean.instant, **NEWEST_ONLY)

    assert folder.is_dir()
    _assert_refused(outcome, Step.PLAN, "climbs with '..'")


def test_a_clean_of_a_copied_table_leaves_the_original_its_files(
    driver: Driver, orders: Orders, tmp_path: Path
) -> None:
    """A copy has the pending plan with the original's paths. Without that plan it is cleaned as any table."""
    driver.carry_out(orders, Service.COMPACTION)
    clean = orders.leave_clean(driver, **NEWEST_ONLY)
    shutil.copytree(orders.path, tmp_path / "copy")
    copy = dataclasses.replace(orders, path=tmp_path / "copy")
    before = orders.data_files()

    outcome = driver.carry_out(copy, Service.CLEAN, instant=clean.instant, **NEWEST_ONLY)

    assert orders.data_files() == copy.data_files() == before
    _assert_refused(outcome, Step.PLAN, f"{orders.path}/")
    assert orders.found() == copy.found() == orders.expected

    for file in (tmp_path / "copy" / ".hoodie" / "timeline").glob(f"*{clean.instant}.clean.*"):
        file.unlink()
    anew = driver.carry_out(copy, Service.CLEAN, **NEWEST_ONLY)
    assert isinstance(anew, Succeeded)
    assert anew.figures["files_deleted"] == len(before - copy.data_files()) > 0
    assert orders.data_files() == before
    own = driver.carry_out(orders, Service.CLEAN, instant=clean.instant, **NEWEST_ONLY)
    assert isinstance(own, Succeeded)


def test_a_table_that_is_reached_through_a_link_is_cleaned(driver: Driver, orders: Orders, tmp_path: Path) -> None:
    """Its plan names the link, and it is served under the folder that the link leads to."""
    (tmp_path / "link").symlink_to(orders.path)
    driver.carry_out(orders, Service.COMPACTION)
    clean = orders.leave_clean(driver, **NEWEST_ONLY)
    file, record, schema = _plan_of(orders, f"{clean.instant}.clean.requested")
    for files in record["filePathsToBeDeletedPerPartition"].values():
        for one in files:
            one["filePath"] = one["filePath"].replace(str(orders.path), f"file:{tmp_path}/link")
    _rewrite(file, schema, record)

    outcome = driver.carry_out(orders, Service.CLEAN, instant=clean.instant, **NEWEST_ONLY)

    assert isinstance(outcome, Succeeded)
    assert outcome.figures["files_deleted"] == clean.files_to_delete


def test_a_compaction_of_another_tables_file_is_not_executed(driver: Driver, orders: Orders, tmp_path: Path) -> None:
    """A name that is itself a path leads out of the partition: its rows would become the table's."""
    compaction = driver.leave_planned(orders, Service.COMPACTION)
    folder = _other_table(tmp_path)
    file, record, schema = _plan_of(orders, f"{compaction.instant}.compaction.requested")
    record["operations"][0]["dataFilePath"] = f"{folder}/0.parquet"
    _rewrite(file, schema, record)
    before = orders.data_files()

    outcome = driver.carry_out(orders, Service.COMPACTION, instant=compaction.instant)

    _assert_refused(outcome, Step.EXECUTE, f"{folder}/0.parquet")
    assert orders.data_files() == before
    assert orders.timeline("*.compaction.inflight") == []


def test_a_table_that_names_another_base_path_is_served_where_it_lies(
    driver: Driver, orders: Orders, tmp_path: Path
) -> None:
    """Hudi's client would obey its `hoodie.properties`, and clean the other table."""
    driver.carry_out(orders, Service.COMPACTION)
    shutil.copytree(orders.path, tmp_path / "other")
    other = dataclasses.replace(orders, path=tmp_path / "other")
    properties = orders.path / ".hoodie" / "hoodie.properties"
    properties.write_text(f"{properties.read_text()}hoodie.base.path={other.path}\n")
    (orders.path / ".hoodie" / ".hoodie.properties.crc").unlink(missing_ok=True)
    before = other.data_files()

    outcome = driver.carry_out(orders, Service.CLEAN, **NEWEST_ONLY)

    assert other.data_files() == before
    assert isinstance(outcome, Succeeded)
    assert outcome.figures["files_deleted"] == len(before - orders.data_files()) > 0


def test_a_dead_write_whose_markers_name_another_tables_files_is_not_rolled_back(
    driver: Driver, orders: Orders, tmp_path: Path
) -> None:
    """Hudi makes the rollback from them, and executes it in the same call."""
    write = time.strftime("%Y%m%d%H%M%S000", time.gmtime())
    for state in ("requested", "inflight"):
        (orders.path / ".hoodie" / "timeline" / f"{write}.deltacommit.{state}").touch()
    beat = orders.path / ".hoodie" / ".heartbeat" / write
    beat.touch()
    _silence(beat)
    folder = _other_table(tmp_path)
    markers = orders.path / ".hoodie" / ".temp" / write
    markers.mkdir(parents=True)
    (markers / "MARKERS.type").write_text("TIMELINE_SERVER_BASED")
    (markers / "MARKERS0").write_text("".join(f"p0/../../orders2/p0/{n}.parquet.marker.CREATE\n" for n in range(3)))

    outcome = driver.carry_out(orders, Service.ROLLBACK)

    assert len(list(folder.iterdir())) == 3
    _assert_refused(outcome, Step.COMMIT, "orders2/p0/0.parquet")
    assert orders.timeline(f"{write}.deltacommit.inflight")


@pytest.mark.parametrize("service", [Service.ROLLBACK, Service.CLEAN])
def test_a_rollback_of_another_tables_files_is_not_executed_on_any_road(
    driver: Driver, orders: Orders, tmp_path: Path, service: Service
) -> None:
    """Hudi executes a pending rollback when asked to, and as a part of a clean that meets a dead write."""
    driver.carry_out(orders, Service.COMPACTION)
    write = time.strftime("%Y%m%d%H%M%S000", time.gmtime())
    timeline = orders.path / ".hoodie" / "timeline"
    for state in ("requested", "inflight"):
        (timeline / f"{write}.deltacommit.{state}").touch()
    beat = orders.path / ".hoodie" / ".heartbeat" / write
    beat.touch()
    folder = _other_table(tmp_path)
    rollback = _forge_rollback(driver, orders, write, folder)
    _silence(beat)

    options = NEWEST_ONLY if service is Service.CLEAN else {}
    outcome = driver.carry_out(orders, service, instant=rollback if service is Service.ROLLBACK else None, **options)

    assert len(list(folder.iterdir())) == 3
    _assert_refused(outcome, Step.COMMIT, f"file:{folder}/0.parquet")
    assert orders.timeline(f"{write}.deltacommit.inflight")


def _silence(beat: Path) -> None:
    os.utime(beat, (time.time() - 3600, time.time() - 3600))


def _forge_rollback(driver: Driver, orders: Orders, write: str, folder: Path) -> str:
    """Leave a rollback of `write` pending that deletes another table's files."""
    schema = {
        "type": "record", "name": "HoodieRollbackPlan", "namespace": "org.apache.hudi.avro.model", "fields": [
            {"name": "instantToRollback", "default": None, "type": ["null", {
                "type": "record", "name": "HoodieInstantInfo", "fields": [
                    {"name": "commitTime", "type": "string"}, {"name": "action", "type": "string"}]}]},
            {"name": "RollbackRequests", "default": None, "type": ["null", {"type": "array", "items": {
                "type": "record", "name": "HoodieRollbackRequest", "fields": [
                    {"name": "partitionPath", "type": "string"},
                    {"name": "fileId", "type": ["null", "string"], "default": None},
                    {"name": "latestBaseInstant", "type": ["null", "string"], "default": None},
                    {"name": "filesToBeDeleted", "default": [], "type": {"type": "array", "items": "string"}},
                    {"name": "logBlocksToBeDeleted", "type": ["null", {"type": "map", "values": "long"}],
                     "default": None},
                ]}}]},
            {"name": "version", "type": ["int", "null"], "default": 1},
        ],
    }  # fmt: skip
    request = {"partitionPath": "p0", "fileId": "", "latestBaseInstant": "", "logBlocksToBeDeleted": {}}
    request["filesToBeDeleted"] = [f"file:{path}" for path in sorted(folder.iterdir())]
    plan = {
        "instantToRollback": {"commitTime": write, "action": "deltacommit"},
        "RollbackRequests": [request],
        "version": 1,
    }
    instant = str(int(write) + 1)
    _rewrite(
        orders.path / ".hoodie" / "timeline" / f"{instant}.rollback.requested", fastavro.parse_schema(schema), plan
    )
    return instant
