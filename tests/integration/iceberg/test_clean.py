"""Iceberg's clean on real Spark deletes what Iceberg would delete. It deletes nothing that is needed, and leaves no
file behind if it is killed.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from lakewarden.executors.contract import (
    Ended,
    Failed,
    FailureKind,
    Granted,
    Lost,
    NothingToDo,
    Outcome,
    Succeeded,
    Yielded,
)
from lakewarden.planners.model.instant import Service, State, Step
from tests.integration.iceberg.deletions import EVERYTHING, Deletions, suffering
from tests.support.iceberg.trips import CATALOG
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.iceberg.trips import Trips
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark


@pytest.fixture
def table(trips: Trips) -> Deletions:
    """Configure the table so that its snapshots may expire at once."""
    return Deletions(trips)


def by_flink(job: str, checkpoint: int) -> dict[str, str]:
    return {"flink.job-id": job, "flink.operator-id": "op", "flink.max-committed-checkpoint-id": str(checkpoint)}


def with_names_and_marks(table: Deletions) -> set[int]:
    """Give the table a tag, a branch, deletes, a rewrite and a Flink job. Return the snapshots that must stay."""
    trips = table.trips
    tagged, branched = table.snapshots()[2], table.snapshots()[4]
    trips.read().manage_snapshots().create_tag(tagged, "v1").create_branch(branched, "audit").commit()
    trips.delete(1, 2)
    table.rewrite()
    nothing = trips.read().scan().to_arrow().slice(0, 0)
    for checkpoint in (7, 8):
        trips.read().append(nothing, snapshot_properties=by_flink("job-1", checkpoint))
    flink = table.snapshots()[-1]
    trips.append()
    return {flink, tagged, branched, table.snapshots()[-1]}


@pytest.mark.core
def test_exactly_the_files_go_that_iceberg_would_delete_and_every_snapshot_that_stays_is_readable(
    driver: Driver, table: Deletions, tmp_path: Path
) -> None:
    """The table is restored, and Iceberg's own action with the same ids deletes the same files."""
    stay = with_names_and_marks(table)
    expired = [one for one in table.snapshots() if one not in stay]
    rows = {one: table.rows(one) for one in stay}
    before = table.on_disk()
    with table.put_back(tmp_path / "copy"):
        table.expire_by_icebergs_own_action(*expired)
        gone_by_iceberg = before - table.on_disk()
    assert any(path.endswith(".parquet") for path in gone_by_iceberg)

    of_rows = sum(Path(path).stat().st_size for path in gone_by_iceberg if path.endswith(".parquet"))
    run = driver.submit(table, Service.CLEAN, largest_share=0, **EVERYTHING)
    plan = driver.advance(run, to=Step.COMMIT)
    assert plan is not None
    assert (plan.bytes_to_delete, plan.versions_to_delete) == (of_rows, len(expired))
    assert table.on_disk() == before
    driver.pool.answer(run, Step.COMMIT, Granted())
    outcome = driver.next(run, Ended).outcome

    assert isinstance(outcome, Succeeded)
    assert set(table.snapshots()) == stay
    assert before - table.on_disk() == gone_by_iceberg
    assert table.on_disk() == table.known()
    assert {one: table.rows(one) for one in stay} == rows
    assert table.trips.found() == table.trips.expected
    assert outcome.figures["snapshots_expired"] == len(expired)
    of_data = sum(path.endswith(".parquet") for path in gone_by_iceberg)
    assert plan.files_to_delete == outcome.figures["files_deleted"] == of_data
    assert outcome.figures["metadata_files_deleted"] == len(gone_by_iceberg) - of_data
    assert plan.files_in_table == of_data + len(table.trips.read().inspect.files())
    assert set(table.trips.read().refs()) == {"main", "v1", "audit"}
    beside = table.beside(Service.CLEAN)
    assert beside is not None
    assert (beside.pending, [one.run for one in beside.completed], table.lists()) == (None, [run], [])

    assert isinstance(driver.carry_out(table, Service.CLEAN, **EVERYTHING), NothingToDo)


@pytest.mark.parametrize(
    ("point", "hit"),
    [
        ("expired", 1),
        pytest.param("deleting", 1, marks=pytest.mark.faults),
        pytest.param("deleting", 2, marks=pytest.mark.core),
    ],
)
def test_a_clean_that_is_killed_is_finished_by_the_next_run_and_nothing_leaks(
    driver: Driver, table: Deletions, worker_faults: Path, point: str, hit: int
) -> None:
    """Kill -9 comes right after the metadata commit, and in the middle of deleting. The clean's own list has the
    remaining files.
    """
    table.trips.delete(0)
    table.trips.lake.spark.sql(f"delete from {table.trips.sql} where p = 1")
    table.trips.expected = {key: value for key, value in table.trips.expected.items() if key % 10 % 2 == 0}
    with suffering(worker_faults, point, "crash", service="clean", hit=hit):
        run = driver.submit(table, Service.CLEAN, **EVERYTHING)
        driver.advance(run, to=Step.COMMIT)
        driver.pool.answer(run, Step.COMMIT, Granted())
        driver.next(run, Lost)
    assert len(table.snapshots()) == 1
    assert table.on_disk() > table.known()
    beside = table.beside(Service.CLEAN)
    assert beside is not None
    assert beside.pending is not None
    assert (beside.pending.run, beside.pending.state) == (run, State.INFLIGHT)
    driver.until_ready()

    outcome = driver.carry_out(table, Service.CLEAN, instant=beside.pending.instant, **EVERYTHING)

    assert isinstance(outcome, Succeeded)
    assert table.on_disk() == table.known()
    assert table.trips.found() == table.trips.expected
    assert table.lists() == []
    done = table.beside(Service.CLEAN)
    assert done is not None
    assert [(one.run, one.state) for one in done.completed] == [(run, State.COMPLETED)]


def test_a_list_that_names_a_foreign_file_deletes_nothing(driver: Driver, table: Deletions, tmp_path: Path) -> None:
    """Every client that can write beside the metadata could name any file. Neither that file nor the others are
    deleted, and no snapshot expires.
    """
    theirs = tmp_path / "theirs.parquet"
    theirs.write_text("somebody else's")
    run = driver.submit(table, Service.CLEAN, **EVERYTHING)
    driver.advance(run, to=Step.COMMIT)
    [file] = table.lists()
    *lines, _ = file.read_text().splitlines()
    lines += [json.dumps(["content", f"file:{theirs}"]), json.dumps(["end", len(lines) + 1])]
    file.write_text("\n".join(lines))
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    before, snapshots = table.on_disk(), table.snapshots()

    driver.pool.answer(run, Step.COMMIT, Granted())
    outcome = driver.next(run, Ended).outcome

    assert theirs.exists()
    assert (table.on_disk(), table.snapshots()) == (before, snapshots)
    assert isinstance(outcome, Failed)
    assert outcome.kind is FailureKind.PERMANENT
    assert f"names file:{theirs}, which is not a file of the table in" in outcome.reason


def test_a_plan_that_was_not_begun_is_made_anew_without_what_must_stay_by_now(driver: Driver, table: Deletions) -> None:
    """Between plan and commit a writer rolls back to a snapshot that was to expire. The run yields, and the snapshot
    stays.
    """
    target = table.snapshots()[2]
    rows = table.rows(target)
    run = driver.submit(table, Service.CLEAN, **EVERYTHING)
    plan = driver.advance(run, to=Step.COMMIT)
    assert plan is not None
    table.roll_back(target)
    before = table.on_disk()
    driver.pool.answer(run, Step.COMMIT, Granted())
    outcome = driver.next(run, Ended).outcome

    assert isinstance(outcome, Yielded)
    assert f"snapshot {target} was planned to expire, and must stay now" in outcome.reason
    assert table.on_disk() == before
    assert isinstance(driver.carry_out(table, Service.CLEAN, instant=plan.instant, **EVERYTHING), Succeeded)
    assert table.rows(target) == rows
    assert target in table.snapshots()
    assert isinstance(driver.carry_out(table, Service.CLEAN, **EVERYTHING), Succeeded)
    assert table.snapshots() == [target]
    assert table.rows(target) == rows
    assert table.on_disk() == table.known()


def test_a_writer_that_goes_back_in_the_moment_of_our_commit_wins(
    driver: Driver, table: Deletions, worker_faults: Path
) -> None:
    """The commit is conditional on the observed state, so it fails. The next observation sees what must stay, and
    nothing is deleted. The plan is then one that was not begun.
    """
    target, before = table.snapshots()[2], table.on_disk()
    rows = table.rows(target)
    with suffering(worker_faults, "expiring", "hold", service="clean") as stands:
        run = driver.submit(table, Service.CLEAN, **EVERYTHING)
        driver.advance(run, to=Step.COMMIT)
        driver.pool.answer(run, Step.COMMIT, Granted())
        eventually(stands.exists)
        table.roll_back(target)
        stands.unlink()
        outcome = driver.next(run, Ended).outcome

    assert isinstance(outcome, Yielded)
    assert len(table.snapshots()) == 6
    assert table.on_disk() == before
    assert table.rows(target) == rows
    beside = table.beside(Service.CLEAN)
    assert beside is not None
    assert beside.pending is not None
    assert beside.pending.state is State.REQUESTED


def _overtaken(driver: Driver, table: Deletions, worker_faults: Path) -> Outcome:
    """Execute a clean, and let a writer append right at its commit."""
    with suffering(worker_faults, "expiring", "hold", service="clean") as stands:
        run = driver.submit(table, Service.CLEAN, **EVERYTHING)
        driver.advance(run, to=Step.COMMIT)
        driver.pool.answer(run, Step.COMMIT, Granted())
        eventually(stands.exists)
        table.trips.append()
        stands.unlink()
        return driver.next(run, Ended).outcome


def test_a_writer_that_appends_in_the_moment_of_our_commit_makes_it_begin_anew(
    driver: Driver, table: Deletions, worker_faults: Path
) -> None:
    """A moved pointer is the only failure that is tried again. The append stays."""
    outcome = _overtaken(driver, table, worker_faults)

    assert isinstance(outcome, Succeeded)
    assert outcome.figures["snapshots_expired"] == 5
    assert table.trips.found() == table.trips.expected
    assert table.on_disk() == table.known()


def test_an_expiry_is_tried_as_often_as_the_tables_properties_ask(
    driver: Driver, table: Deletions, worker_faults: Path
) -> None:
    """Without a further attempt it yields to the first commit in between, and expires nothing."""
    table.trips.read().transaction().set_properties({"commit.retry.num-retries": "0"}).commit_transaction()
    before = table.on_disk()
    outcome = _overtaken(driver, table, worker_faults)

    assert isinstance(outcome, Yielded)
    assert "each of 1 attempts" in outcome.reason
    assert len(table.snapshots()) == 7
    assert table.on_disk() >= before


def test_what_cannot_be_deleted_is_tried_again_and_is_no_success(driver: Driver, table: Deletions) -> None:
    """Stores hide failures to delete. A listing shows the remaining files, and the list is processed again."""
    table.trips.lake.spark.sql(f"delete from {table.trips.sql} where p = 1")
    run = driver.submit(table, Service.CLEAN, **EVERYTHING)
    driver.advance(run, to=Step.COMMIT)
    [stubborn, *_] = sorted((table.folder / "data" / "p=1").glob("*.parquet"))
    stubborn.unlink()
    (stubborn / "inside").mkdir(parents=True)
    driver.pool.answer(run, Step.COMMIT, Granted())
    outcome = driver.next(run, Ended).outcome

    assert isinstance(outcome, Failed)
    assert outcome.kind is FailureKind.TEMPORARY
    assert "1 of " in outcome.reason
    assert stubborn.name in outcome.reason
    (stubborn / "inside").rmdir()
    beside = table.beside(Service.CLEAN)
    assert beside is not None
    assert beside.pending is not None
    assert isinstance(driver.carry_out(table, Service.CLEAN, instant=beside.pending.instant, **EVERYTHING), Succeeded)
    assert table.on_disk() == table.known()


def test_what_a_writer_picks_from_an_expiring_snapshot_is_not_deleted(driver: Driver, table: Deletions) -> None:
    """A cherry-pick makes a new snapshot of an old one's files. The old snapshot expires, and its files stay."""
    base, _, picked = table.snapshots()[2:5]
    table.roll_back(base)
    run = driver.submit(table, Service.CLEAN, **EVERYTHING)
    driver.advance(run, to=Step.COMMIT)
    table.cherry_pick(picked)
    newest = table.snapshots()[-1]
    rows = table.rows(newest)
    assert len(rows) == 40
    driver.pool.answer(run, Step.COMMIT, Granted())

    outcome = driver.next(run, Ended).outcome
    assert isinstance(outcome, Succeeded), outcome
    assert picked not in table.snapshots()
    assert table.rows(newest) == rows


def test_what_a_writer_takes_up_again_after_the_metadata_commit_is_not_deleted(
    driver: Driver, table: Deletions, worker_faults: Path
) -> None:
    """The files that the table needs are read again right before the deletion, and each time that the table has changed
    since.
    """
    java = table.java()
    table.trips.lake.spark.sql(f"delete from {table.trips.sql} where p = 1")
    gone = java.snapshot(table.snapshots()[0]).addedDataFiles(java.io())
    [file] = [one for one in list(gone) if "p=1" in str(one.location())]
    with suffering(worker_faults, "expired", "hold", service="clean") as stands:
        run = driver.submit(table, Service.CLEAN, **EVERYTHING)
        driver.advance(run, to=Step.COMMIT)
        driver.pool.answer(run, Step.COMMIT, Granted())
        eventually(stands.exists)
        java.refresh()
        java.newFastAppend().appendFile(file).commit()
        stands.unlink()
        outcome = driver.next(run, Ended).outcome

    assert isinstance(outcome, Succeeded)
    assert len(table.rows(table.snapshots()[-1])) == 35
    assert table.on_disk() == table.known()


def test_a_clean_keeps_what_a_writers_outage_needs(driver: Driver, trips: Trips) -> None:
    """This holds for any age in the policy. The table's longest_outage is a day by default."""
    kept = Deletions(trips, table_options={})
    assert isinstance(driver.carry_out(kept, Service.CLEAN, **EVERYTHING), NothingToDo)
    assert len(kept.snapshots()) == 6


@pytest.mark.parametrize(("key", "value"), [("gc.enabled", "false"), ("nessie.commit.id", "5c1f")])
def test_a_table_whose_files_may_not_be_deleted_keeps_them(
    driver: Driver, table: Deletions, key: str, value: str
) -> None:
    """Its properties say that other tables may need them: `gc.enabled=false`, and the properties that Nessie writes."""
    table.trips.lake.spark.sql(f"alter table {table.trips.sql} set tblproperties ('{key}' = '{value}')")
    for service, options in [(Service.CLEAN, EVERYTHING), (Service.ORPHANS, {})]:
        outcome = driver.carry_out(table, service, **options)
        assert isinstance(outcome, Failed)
        assert outcome.kind is FailureKind.PERMANENT
        assert key in outcome.reason


def test_a_list_that_was_taken_away_is_no_plan_any_more(driver: Driver, table: Deletions) -> None:
    """The orphan removal of another tool may delete it. Then nothing is pending, and the table is not changed."""
    plan = driver.leave_planned(table, Service.CLEAN, **EVERYTHING)
    for path in (table.folder / "metadata").glob("*lakewarden-*"):
        path.unlink()
    outcome = driver.carry_out(table, Service.CLEAN, instant=plan.instant, **EVERYTHING)
    assert outcome == NothingToDo(reason=f"{plan.instant} is not pending any more")
    assert isinstance(driver.carry_out(table, Service.CLEAN, **EVERYTHING), Succeeded)
    assert table.on_disk() == table.known()


def test_a_clean_beside_a_copy_in_the_same_catalog_deletes_nothing(driver: Driver, table: Deletions) -> None:
    """The copy has a folder of its own by now, and still needs files of this one."""
    lake, copy = table.trips.lake, f"copy_of_{table.trips.name}"
    lake.catalog.register_table(("db", copy), table.trips.read().metadata_location)
    lake.spark.sql(f"alter table {CATALOG}.db.{copy} set location '{table.folder}-copy'")
    rows = lake.catalog.load_table(("db", copy)).scan().to_arrow().num_rows
    table.rewrite()
    before = table.on_disk()

    outcome = driver.carry_out(table, Service.CLEAN, **EVERYTHING)

    assert isinstance(outcome, Failed)
    assert f"the table db.{copy} of the same catalog has the same table-uuid" in outcome.reason
    assert table.on_disk() == before
    assert lake.catalog.load_table(("db", copy)).scan().to_arrow().num_rows == rows
    lake.catalog.drop_table(("db", copy))
    assert isinstance(driver.carry_out(table, Service.CLEAN, **EVERYTHING), Succeeded)


def test_a_catalog_that_another_is_ahead_of_expires_nothing(driver: Driver, table: Deletions, tmp_path: Path) -> None:
    """After a migration the table is still in the old catalog. Its retention there is not that of the new catalog."""
    stale = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/stale.db", warehouse=f"file://{tmp_path}")
    stale.create_namespace("db")
    stale.register_table(("db", table.trips.name), table.trips.read().metadata_location)
    stale.engine.dispose()
    for path in (table.folder / "metadata").iterdir():
        os.utime(path, (1, 1))
    table.trips.append()
    newest = Path(table.trips.read().metadata_location.removeprefix("file://"))
    os.utime(newest, (time.time() - 7200,) * 2)
    settings = {**table.assigned["catalog"], "uri": f"jdbc:sqlite:{tmp_path}/stale.db"}
    old = SimpleNamespace(assigned={**table.assigned, "catalog": settings})
    before = table.on_disk()

    outcome = driver.carry_out(old, Service.CLEAN, **EVERYTHING)

    assert isinstance(outcome, Failed)
    assert outcome.kind is FailureKind.PERMANENT
    assert f"{newest} is a newer version of this table" in outcome.reason.replace("file://", "")
    assert "another catalog" in outcome.reason
    assert table.on_disk() == before
    assert isinstance(driver.carry_out(table, Service.CLEAN, **EVERYTHING), Succeeded)
