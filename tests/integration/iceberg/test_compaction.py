"""Iceberg's compaction on real Spark, each step by its permit, beside writers of the table."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from lakewarden.executors.contract import (
    Ended,
    Failed,
    FailureKind,
    Granted,
    NothingToDo,
    Refused,
    Succeeded,
    Yielded,
)
from lakewarden.planners.model.instant import Service, Step
from tests.integration.iceberg.deletions import suffering
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.iceberg.trips import Lake, Trips
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark


@pytest.mark.core
def test_new_files_are_written_first_and_seen_by_no_reader_until_the_commit_that_names_the_run(
    driver: Driver, trips: Trips
) -> None:
    """The plan writes nothing. The execution writes files that no snapshot refers to, and the commit exchanges them."""
    before, pointer = trips.files_on_disk(), trips.read().metadata_location
    run = driver.submit(trips, Service.COMPACTION)
    plan = driver.advance(run, to=Step.EXECUTE)
    assert plan is not None
    assert (plan.instant, plan.file_groups) == (None, 2)
    assert trips.files_on_disk() == before
    driver.pool.answer(run, Step.EXECUTE, Granted())
    driver.advance(run, to=Step.COMMIT)
    assert len(trips.files_on_disk() - before) == 2
    assert trips.read().metadata_location == pointer

    driver.pool.answer(run, Step.COMMIT, Granted())
    outcome = driver.next(run, Ended).outcome

    assert isinstance(outcome, Succeeded)
    [signed] = trips.signed_by(run)
    assert (signed["operation"], signed["lakewarden.service"]) == ("replace", "compaction")
    assert "lakewarden.part" not in signed
    assert {key: outcome.figures[key] for key in ("file_groups", "files_rewritten", "files_added", "commits")} == {
        "file_groups": 2,
        "files_rewritten": 12,
        "files_added": 2,
        "commits": 1,
    }
    assert trips.data_files() == 2
    assert trips.found() == trips.expected


def test_appends_that_land_during_a_rewrite_do_not_delay_it(driver: Driver, trips: Trips) -> None:
    """Both the appender and the rewrite succeed, and every row is there."""
    run = driver.submit(trips, Service.COMPACTION)
    driver.advance(run, to=Step.COMMIT)
    trips.append()
    driver.pool.answer(run, Step.COMMIT, Granted())

    assert isinstance(driver.next(run, Ended).outcome, Succeeded)
    assert trips.data_files() == 4
    assert trips.found() == trips.expected


def test_a_run_whose_commit_is_refused_takes_its_files_with_it(driver: Driver, trips: Trips) -> None:
    """If a commit was refused before it was tried, its files are deleted, and the table is not changed."""
    before, pointer = trips.files_on_disk(), trips.read().metadata_location
    run = driver.submit(trips, Service.COMPACTION)
    driver.advance(run, to=Step.COMMIT)
    assert trips.files_on_disk() != before
    driver.pool.answer(run, Step.COMMIT, Refused(reason="the table is paused"))

    assert driver.next(run, Ended).outcome == Yielded(reason="the table is paused")
    assert trips.files_on_disk() == before
    assert trips.read().metadata_location == pointer
    assert trips.found() == trips.expected


@pytest.mark.core
def test_a_delete_that_lands_during_a_rewrite_makes_us_yield(driver: Driver, trips: Trips) -> None:
    """A partition becomes hot between execute and commit. The writer's commit stays, and no file of ours is left."""
    trips.age()
    trips.quiet_for = "1h"
    run = driver.submit(trips, Service.COMPACTION)
    driver.advance(run, to=Step.COMMIT)
    written = trips.files_on_disk()
    trips.delete(0)
    of_the_writer = trips.files_on_disk() - written
    driver.pool.answer(run, Step.COMMIT, Granted())
    outcome = driver.next(run, Ended).outcome

    assert isinstance(outcome, Yielded)
    assert "p=0 is left alone" in outcome.reason
    assert trips.signed_by(run) == []
    assert of_the_writer <= trips.files_on_disk()
    assert len(trips.files_on_disk()) == 12 + len(of_the_writer)
    assert trips.found() == trips.expected


def test_a_run_steps_back_if_others_commit_during_each_of_its_attempts(
    driver: Driver, trips: Trips, worker_faults: Path
) -> None:
    """The table allows one attempt, and an append comes during it. The run has not failed, it leaves no file, and the
    next one succeeds.
    """
    trips.lake.spark.sql(f"alter table {trips.sql} set tblproperties ('commit.retry.num-retries'='0')")
    before = trips.files_on_disk()
    with suffering(worker_faults, "proposed", "hold", service="compaction") as held:
        run = driver.submit(trips, Service.COMPACTION)
        driver.advance(run, to=Step.COMMIT)
        driver.pool.answer(run, Step.COMMIT, Granted())
        eventually(held.exists)
        trips.append()
    outcome = driver.next(run, Ended).outcome

    assert isinstance(outcome, Yielded)
    assert "moved on during each of 1 attempts" in outcome.reason
    assert len(trips.files_on_disk() - before) == 2
    assert isinstance(driver.carry_out(trips, Service.COMPACTION), Succeeded)
    assert trips.found() == trips.expected


@pytest.mark.parametrize("undone", ["delete", "append"])
def test_a_change_that_was_rolled_back_before_the_commit_does_not_return(
    driver: Driver, trips: Trips, undone: str
) -> None:
    """The compaction has read it. Iceberg refuses a commit from a snapshot that is no ancestor any more."""
    trips.age()
    before, snapshot = dict(trips.expected), trips.read().current_snapshot()
    assert snapshot is not None
    trips.delete(0, 2) if undone == "delete" else trips.append()
    trips.age()
    run = driver.submit(trips, Service.COMPACTION)
    driver.advance(run, to=Step.COMMIT)
    spark = trips.lake.spark
    table = spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, trips.sql)
    table.manageSnapshots().rollbackTo(snapshot.snapshot_id).commit()
    driver.pool.answer(run, Step.COMMIT, Granted())

    assert isinstance(driver.next(run, Ended).outcome, Yielded)

    assert trips.found() == before
    trips.age()
    assert isinstance(driver.carry_out(trips, Service.COMPACTION), Succeeded)
    assert trips.found() == before


def test_partitions_that_a_writer_changes_are_not_planned(driver: Driver, trips: Trips) -> None:
    """Right after a DELETE its partition is left alone and the other one is rewritten. Some time later it is rewritten
    too.
    """
    trips.age()
    trips.quiet_for = "1h"
    trips.delete(0, 2)
    first = driver.submit(trips, Service.COMPACTION)
    plan = driver.advance(first, to=Step.EXECUTE)
    assert plan is not None
    assert plan.file_groups == 1
    driver.pool.answer(first, Step.EXECUTE, Granted())
    assert isinstance(driver.finish(first), Succeeded)
    trips.age()

    assert isinstance(driver.carry_out(trips, Service.COMPACTION), Succeeded)
    assert trips.data_files() == 2
    assert trips.found() == trips.expected


def test_deletes_that_no_file_needs_any_more_go_with_the_compaction(driver: Driver, trips: Trips) -> None:
    """Position deletes that are older than every file are removed. The commit also has the run's id."""
    trips.delete(0, 1)
    trips.append()
    time.sleep(1.2)  # quiet_for
    run = driver.submit(trips, Service.COMPACTION)
    outcome = driver.finish(run)

    assert isinstance(outcome, Succeeded)
    assert outcome.figures["delete_files_removed"] == 2
    assert len(trips.read().inspect.delete_files()) == 0
    assert all(one["operation"] == "replace" for one in trips.signed_by(run))
    assert trips.found() == trips.expected


def test_nothing_is_started_where_iceberg_would_rewrite_nothing(driver: Driver, lake: Lake) -> None:
    """If there are too few small files, they are left as they are."""
    table = lake.trips()
    table.append(commits=3)
    pointer = table.read().metadata_location

    assert isinstance(driver.carry_out(table, Service.COMPACTION), NothingToDo)
    assert table.read().metadata_location == pointer


def test_a_run_takes_no_more_than_it_is_allowed(driver: Driver, trips: Trips) -> None:
    """If the limit fits the files of one partition, the other one waits for the next run."""
    outcome = driver.carry_out(trips, Service.COMPACTION, max_files=7)

    assert isinstance(outcome, Succeeded)
    assert outcome.figures["files_rewritten"] == 6
    assert trips.found() == trips.expected


def test_with_partial_progress_every_commit_but_the_last_says_that_more_follow(driver: Driver, trips: Trips) -> None:
    """Each part is a commit of its own. Only the last one ends the run."""
    run = driver.submit(trips, Service.COMPACTION, partial_progress=True, max_commits=2)
    outcome = driver.finish(run)

    assert isinstance(outcome, Succeeded)
    assert outcome.figures["commits"] == 2
    assert [one.get("lakewarden.part") for one in trips.signed_by(run)] == ["more", None]
    assert trips.found() == trips.expected


def test_with_partial_progress_a_conflict_loses_its_piece_and_the_run_is_no_success(
    driver: Driver, trips: Trips
) -> None:
    """A writer has replaced files of one partition meanwhile, without making it hot. That part fails, the other part is
    committed, and no commit of the run says that it is the last.
    """
    run = driver.submit(trips, Service.COMPACTION, partial_progress=True, max_commits=2)
    driver.advance(run, to=Step.COMMIT)
    rival = driver.submit(trips, Service.COMPACTION, max_files=7)
    assert isinstance(driver.finish(rival), Succeeded)
    driver.pool.answer(run, Step.COMMIT, Granted())
    outcome = driver.next(run, Ended).outcome

    assert isinstance(outcome, Failed)
    assert outcome.kind is FailureKind.TEMPORARY
    assert "1 of 2 file groups" in outcome.reason
    assert [one["lakewarden.part"] for one in trips.signed_by(run)] == ["more"]
    assert len(trips.files_on_disk()) == 12 + 2
    assert trips.found() == trips.expected


def test_with_partial_progress_a_writer_is_looked_for_before_each_part(
    driver: Driver, trips: Trips, worker_faults: Path
) -> None:
    """During the commit of the first part a writer comes to the partition of the second one. It changes a row of a file
    that is not rewritten, so Iceberg sees no conflict. The second part is given up all the same.
    """
    options = {**trips.assigned["table_options"], "quiet_for": "1m"}
    table = SimpleNamespace(assigned={**trips.assigned, "table_options": options})
    with suffering(worker_faults, "proposed", "hold", service="compaction") as held:
        run = driver.submit(table, Service.COMPACTION, partial_progress=True, max_commits=2)
        driver.advance(run, to=Step.COMMIT)
        driver.pool.answer(run, Step.COMMIT, Granted())
        eventually(held.exists)
        trips.append()
        trips.delete(61)
    outcome = driver.next(run, Ended).outcome

    assert isinstance(outcome, Failed)
    assert outcome.kind is FailureKind.TEMPORARY
    assert "1 of 2 file groups" in outcome.reason
    assert "left alone" in outcome.reason
    assert trips.files_by_partition() == {0: 2, 1: 7}
    assert trips.found() == trips.expected


def test_a_table_that_is_gone_is_for_a_person(driver: Driver, lake: Lake) -> None:
    """A dropped table ends its own run with a reason, and no other run."""
    table = lake.trips()
    lake.catalog.drop_table(("db", table.name))
    outcome = driver.carry_out(table, Service.COMPACTION)

    assert isinstance(outcome, Failed)
    assert (outcome.kind, outcome.step) == (FailureKind.PERMANENT, Step.PLAN)
    assert table.name in outcome.reason


def test_only_what_the_owner_lets_it_take_is_rewritten(driver: Driver, trips: Trips) -> None:
    """A partition that is not selected stays as it is. Of the rest one run takes the most fragmented."""
    trips.append(commits=3, partitions=3)
    others = {trips.data_file_of(0)}
    outcome = driver.carry_out(trips, Service.COMPACTION, where="p IN (1, 2)", max_files=9, min_input_files=3)
    assert isinstance(outcome, Succeeded)
    assert outcome.figures["files_rewritten"] == 9
    sizes = trips.files_by_partition()
    assert sizes == {0: 9, 1: 1, 2: 3}
    assert all(path.exists() for path in others)

    assert isinstance(driver.carry_out(trips, Service.COMPACTION, where="p = 2", min_input_files=3), Succeeded)
    assert trips.files_by_partition() == {0: 9, 1: 1, 2: 1}
    assert trips.found() == trips.expected
