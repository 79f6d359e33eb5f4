"""Iceberg's orphans service on real Spark finds lost files, and a commit under way loses nothing."""

from __future__ import annotations

import json
import os
import shutil
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_URL, uuid5

import pandas as pd
import pytest

from lakewarden.executors.contract import Ended, Failed, Granted, Lost, NothingToDo, Succeeded
from lakewarden.planners.model.instant import Service, Step
from tests.integration.iceberg.deletions import Deletions, suffering
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.iceberg.trips import Trips
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark

FIXTURES = Path(__file__).parents[2] / "fixtures"
DAYS = 86_400
AT_ONCE: Mapping[str, Any] = {"unknown_for": "0s"}
"""One run lists the folder twice, and does not wait for a second run."""


@pytest.fixture
def table(trips: Trips) -> Deletions:
    """Let every file of the table be ten days old."""
    made = Deletions(trips)
    age_all(made.folder, days=10)
    return made


def age(path: Path, *, days: float) -> Path:
    written = time.time() - days * DAYS
    os.utime(path, (written, written))
    return path


def age_all(folder: Path, *, days: float) -> None:
    """Give all files below a folder one and the same time: none is newer than another."""
    written = time.time() - days * DAYS
    for path in folder.rglob("*"):
        os.utime(path, (written, written))


def lost(table: Deletions, name: str, *, days: float = 10) -> Path:
    """Leave a data file without a snapshot, with its checksum, as a killed writer does."""
    [one, *_] = sorted((table.folder / "data" / "p=0").glob("*.parquet"))
    path = one.with_name(f"00000-9-{uuid5(NAMESPACE_URL, name)}-00001.parquet")
    shutil.copy(one, path)
    checksum = path.with_name(f".{path.name}.crc")
    checksum.write_bytes(b"crc\0")
    age(checksum, days=days)
    return age(path, days=days)


@pytest.mark.core
def test_old_files_go_that_nothing_knows_and_their_checksums_with_them(driver: Driver, table: Deletions) -> None:
    """Every file that the table knows stays, and so does every file that was written lately."""
    known = table.on_disk()
    gone, young = lost(table, "lost"), lost(table, "young", days=2)
    one = next((table.folder / "metadata").glob("*-m0.avro"))
    manifest = age(Path(shutil.copy(one, one.with_name("lost-m0.avro"))), days=11)

    run = driver.submit(table, Service.ORPHANS, largest_share=0, **AT_ONCE)
    plan = driver.advance(run, to=Step.COMMIT)
    assert plan is not None
    assert plan.files_to_delete == 2
    assert gone.exists()
    driver.pool.answer(run, Step.COMMIT, Granted())
    outcome = driver.next(run, Ended).outcome

    assert isinstance(outcome, Succeeded)
    assert outcome.figures["files_deleted"] == 2
    assert not gone.exists()
    assert not gone.with_name(f".{gone.name}.crc").exists()
    assert not manifest.exists()
    assert table.on_disk() == known | {str(young)}
    assert table.trips.found() == table.trips.expected
    assert table.lists() == []
    assert isinstance(driver.carry_out(table, Service.ORPHANS, **AT_ONCE), NothingToDo)


def test_files_of_another_table_that_writes_into_this_folder_are_no_orphans(driver: Driver, table: Deletions) -> None:
    """The other one has its metadata elsewhere, so that nothing in this folder tells of it. Its catalog does."""
    beside = table.trips.lake.trips(write__data__path=f"{table.folder}/data")
    beside.append(commits=2)
    age_all(table.folder, days=10)
    one = next((table.folder / "metadata").glob("*-m0.avro"))
    gone = age(Path(shutil.copy(one, one.with_name("lost-m0.avro"))), days=11)

    outcome = driver.carry_out(table, Service.ORPHANS, **AT_ONCE)
    assert isinstance(outcome, Succeeded), outcome
    assert outcome.figures["files_deleted"] == 1
    assert not gone.exists()
    assert beside.found() == beside.expected


def test_files_of_a_table_that_has_moved_away_are_no_orphans(driver: Driver, trips: Trips) -> None:
    """The catalog names its new folder alone. Its snapshots still lead to the old one, where another table lies now."""
    moved = trips.lake.trips()
    moved.append(commits=2)
    folder = Deletions(moved).folder
    moved.lake.spark.sql(f"alter table {moved.sql} set location '{folder}-moved'")
    moved.append()
    for file in (folder / "metadata").glob("*.metadata.json"):
        file.unlink()  # as write.metadata.delete-after-commit.enabled does
    table = Deletions(moved.lake.trips(location=f"file://{folder}"))
    table.trips.append(commits=5)
    age_all(folder, days=10)

    outcome = driver.carry_out(table, Service.ORPHANS, **AT_ONCE)

    assert isinstance(outcome, Failed)
    assert f"the table db.{moved.name} of the same catalog has lain in" in outcome.reason
    assert moved.found() == moved.expected


def test_a_commit_that_lands_between_the_two_listings_loses_nothing(driver: Driver, table: Deletions) -> None:
    """Its files were written long ago, and were orphans in the first listing."""
    landing, gone = lost(table, "landing"), lost(table, "gone")
    run = driver.submit(table, Service.ORPHANS, **AT_ONCE)
    plan = driver.advance(run, to=Step.COMMIT)
    assert plan is not None
    assert plan.files_to_delete == 2
    _add(table, landing)
    rows = table.rows(table.snapshots()[-1])
    assert len(rows) == 65
    driver.pool.answer(run, Step.COMMIT, Granted())

    assert isinstance(driver.next(run, Ended).outcome, Succeeded)
    assert landing.exists()
    assert not gone.exists()
    assert table.rows(table.snapshots()[-1]) == rows


def test_orphans_go_while_a_compaction_has_written_and_not_committed(driver: Driver, table: Deletions) -> None:
    """Only the compaction knows its files, and they are younger than any orphan."""
    gone = lost(table, "gone")
    compaction = driver.submit(table.trips, Service.COMPACTION)
    driver.advance(compaction, to=Step.COMMIT)
    written = table.on_disk() - table.known() - {str(gone)}
    assert written

    assert isinstance(driver.carry_out(table, Service.ORPHANS, **AT_ONCE), Succeeded)
    assert not gone.exists()
    assert written <= table.on_disk()
    driver.pool.answer(compaction, Step.COMMIT, Granted())
    assert isinstance(driver.next(compaction, Ended).outcome, Succeeded)
    assert table.trips.found() == table.trips.expected
    assert written <= table.known()


def test_what_a_failed_writer_left_on_an_idle_table_holds_nothing_else_back(driver: Driver, table: Deletions) -> None:
    """It was killed after its manifest list and before its commit. Its files stay until the next commit."""
    written, gone = lost(table, "written", days=9), lost(table, "gone")
    beside = set((table.folder / "metadata").glob("*.avro"))
    _adding(table, written).apply()
    left = set((table.folder / "metadata").glob("*.avro")) - beside
    assert len(left) == 2
    for path in left:
        age(path, days=8)

    outcome = driver.carry_out(table, Service.ORPHANS, **AT_ONCE)
    assert isinstance(outcome, Succeeded)
    assert outcome.figures["files_deleted"] == 1
    assert not gone.exists()
    assert table.on_disk() == table.known() | {str(written), *map(str, left)}

    table.trips.append()
    outcome = driver.carry_out(table, Service.ORPHANS, **AT_ONCE)
    assert isinstance(outcome, Succeeded)
    assert outcome.figures["files_deleted"] == 3
    assert table.on_disk() == table.known()
    assert table.trips.found() == table.trips.expected


@pytest.mark.parametrize("point", ["planned", "deleting", "committed"])
def test_orphans_that_are_killed_at_any_step_take_nothing_that_a_writer_has_taken_up_since(
    driver: Driver, table: Deletions, worker_faults: Path, point: str
) -> None:
    """The run that continues checks the listed files again."""
    gone, taken_up = lost(table, "a-gone"), lost(table, "taken-up")
    with suffering(worker_faults, point, "crash", service="orphans"):
        run = driver.submit(table, Service.ORPHANS, **AT_ONCE)
        step = Step.PLAN if point == "planned" else Step.COMMIT
        driver.advance(run, to=step)
        if step is Step.COMMIT:
            _add(table, taken_up)
        driver.pool.answer(run, step, Granted())
        driver.next(run, Lost)
    if point == "planned":
        _add(table, taken_up)
    rows = table.rows(table.snapshots()[-1])
    assert len(rows) == 65
    driver.until_ready()

    beside = table.beside(Service.ORPHANS)
    assert beside is not None
    assert (beside.pending is None) == (point == "committed")
    if beside.pending is not None:
        outcome = driver.carry_out(table, Service.ORPHANS, instant=beside.pending.instant, **AT_ONCE)
        assert isinstance(outcome, Succeeded)
    assert not gone.exists()
    assert table.on_disk() == table.known()
    assert table.rows(table.snapshots()[-1]) == rows


def test_orphans_that_were_killed_are_finished_from_their_list(
    driver: Driver, table: Deletions, worker_faults: Path
) -> None:
    """The remaining files are listed again first, for a writer may have used one of them."""
    first = lost(table, "first")
    with suffering(worker_faults, "deleting", "crash", service="orphans"):
        run = driver.submit(table, Service.ORPHANS, **AT_ONCE)
        driver.advance(run, to=Step.COMMIT)
        driver.pool.answer(run, Step.COMMIT, Granted())
        driver.next(run, Lost)
    assert not first.exists()
    beside = table.beside(Service.ORPHANS)
    assert beside is not None
    assert beside.pending is not None
    driver.until_ready()

    outcome = driver.carry_out(table, Service.ORPHANS, instant=beside.pending.instant, **AT_ONCE)
    assert isinstance(outcome, Succeeded)
    assert table.on_disk() == table.known()
    done = table.beside(Service.ORPHANS)
    assert done is not None
    assert [one.run for one in done.completed] == [run]


def test_what_one_run_has_found_goes_when_a_later_one_still_finds_it(driver: Driver, table: Deletions) -> None:
    """Two listings of one run are minutes apart, and a commit may take longer. The list beside the table keeps the
    first listing for a run of another day. If the list is lost, the waiting time begins again.
    """
    found, taken_up = lost(table, "found"), lost(table, "taken-up")
    for _ in range(2):
        outcome = driver.carry_out(table, Service.ORPHANS)
        assert isinstance(outcome, Succeeded)
        assert (outcome.figures["files_deleted"], outcome.figures["files_unknown"]) == (0, 2)
    began = time.monotonic()
    _add(table, taken_up)
    rows = table.rows(table.snapshots()[-1])
    eventually(lambda: time.monotonic() - began > 1)

    outcome = driver.carry_out(table, Service.ORPHANS, unknown_for="1s")
    assert isinstance(outcome, Succeeded)
    assert (outcome.figures["files_deleted"], outcome.figures["files_unknown"]) == (1, 0)
    assert not found.exists()
    assert table.rows(table.snapshots()[-1]) == rows

    again = lost(table, "again")
    driver.carry_out(table, Service.ORPHANS, unknown_for="1s")
    (table.folder / "metadata" / "lakewarden-orphans.seen").unlink()
    eventually(lambda: time.monotonic() - began > 3)
    driver.carry_out(table, Service.ORPHANS, unknown_for="1s")
    assert again.exists()


def test_what_others_keep_in_the_folder_stays(driver: Driver, table: Deletions, spark: Any, tmp_path: Path) -> None:
    """A stream has its checkpoint there, and tables of other formats lie below. After a restart the stream writes
    nothing a second time.
    """
    trips, source = table.trips, tmp_path / "source"
    batches = (pd.DataFrame({"id": [number], "p": [0], "v": ["streamed"]}) for number in range(1000, 1003))

    def stream() -> None:
        source.mkdir(exist_ok=True)
        next(batches).to_json(source / f"{len(list(source.iterdir()))}.json", orient="records", lines=True)
        rows = spark.readStream.schema("id long, p int, v string").json(str(source))
        written = rows.writeStream.format("iceberg").option("checkpointLocation", f"{table.folder}/checkpoint")
        written.trigger(availableNow=True).toTable(trips.sql).awaitTermination()

    stream()
    stream()
    for fixture in ("hudi/mor_v9", "paimon/spark_keyed"):
        with zipfile.ZipFile(FIXTURES / f"{fixture}.zip") as archive:
            archive.extractall(table.folder / "raw" / fixture)
    delta = table.folder / "raw" / "delta"
    shutil.copytree(table.folder / "data", delta)
    (delta / "_delta_log").mkdir()
    (delta / "_delta_log" / f"{0:020}.json").write_text("{}")
    gone = lost(table, "gone")
    age_all(table.folder, days=10)
    others = {path for path in table.folder.rglob("*") if {"raw", "checkpoint"} & set(path.parts)}

    outcome = driver.carry_out(table, Service.ORPHANS, **AT_ONCE)

    assert isinstance(outcome, Succeeded)
    assert outcome.figures["files_deleted"] == 1
    assert not gone.exists()
    assert {path for path in others if not path.exists()} == set()
    stream()
    count = spark.sql(f"select count(*) from {trips.sql} where v = 'streamed'").collect()[0][0]
    assert count == 3
    said = json.loads((table.folder / "metadata" / "lakewarden-orphans.json").read_text())["others"]
    assert said["raw/delta"] == "a Delta table"
    assert {"a Hudi table", "a Paimon table"} <= set(said.values())
    assert "checkpoint" in said


def _add(table: Deletions, path: Path) -> None:
    """Commit an existing data file, as a writer's last step does."""
    _adding(table, path).commit()


def _adding(table: Deletions, path: Path) -> Any:
    """Return the prepared commit of an existing data file."""
    java = table.java()
    [old, *_] = [one for one in list(java.currentSnapshot().addedDataFiles(java.io())) if "p=0" in str(one.location())]
    jvm = table.trips.lake.spark.sparkContext._jvm
    made = jvm.org.apache.iceberg.DataFiles.builder(java.spec()).copy(old).withPath(f"file:{path}").build()
    return java.newAppend().appendFile(made)
