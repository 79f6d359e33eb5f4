"""Iceberg's compaction on real Spark, each step by its permit, beside writers of the table."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from lakewarden.executors.contract import (
    Ended,
    Failed,
    FailureKind,
    Granted,
    NothingToDo,
    Refused,
    Step,
    Succeeded,
    Yielded,
)
from lakewarden.planners.model.instant import Service

if TYPE_CHECKING:
    from tests.integration.conftest import Driver
    from tests.integration.iceberg.conftest import Lake, Trips

pytestmark = pytest.mark.spark


@pytest.mark.core
def test_new_files_are_written_first_and_seen_by_nobody_until_the_commit_that_bears_the_run(
    driver: Driver, trips: Trips
) -> None:
    """The plan writes nothing, the execution files that no snapshot knows, and the commit exchanges them."""
    before, pointer = trips.files_on_disk(), trips.read().metadata_location
    run = driver.submit(trips, Service.COMPACTION)
    plan = driver.climb(run, to=Step.EXECUTE)
    assert plan is not None
    assert (plan.instant, plan.file_groups) == (None, 2)
    assert trips.files_on_disk() == before
    driver.pool.answer(run, Step.EXECUTE, Granted())
    driver.climb(run, to=Step.COMMIT)
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


def test_appends_that_land_during_a_rewrite_keep_nobody_off(driver: Driver, trips: Trips) -> None:
    """Both the appender and we succeed, and every row is there."""
    run = driver.submit(trips, Service.COMPACTION)
    driver.climb(run, to=Step.COMMIT)
    trips.append()
    driver.pool.answer(run, Step.COMMIT, Granted())

    assert isinstance(driver.next(run, Ended).outcome, Succeeded)
    assert trips.data_files() == 4
    assert trips.found() == trips.expected


def test_a_run_whose_commit_is_refused_takes_its_files_with_it(driver: Driver, trips: Trips) -> None:
    """What was written and never tried to commit is deleted, and the table is as it was."""
    before, pointer = trips.files_on_disk(), trips.read().metadata_location
    run = driver.submit(trips, Service.COMPACTION)
    driver.climb(run, to=Step.COMMIT)
    assert trips.files_on_disk() != before
    driver.pool.answer(run, Step.COMMIT, Refused(reason="the table is paused"))

    assert driver.next(run, Ended).outcome == Yielded(reason="the table is paused")
    assert trips.files_on_disk() == before
    assert trips.read().metadata_location == pointer
    assert trips.found() == trips.expected


@pytest.mark.core
def test_a_delete_that_lands_during_a_rewrite_makes_us_yield(driver: Driver, trips: Trips) -> None:
    """A partition becomes hot between execute and commit: the writer's commit stands, no file of ours is left."""
    run = driver.submit(trips, Service.COMPACTION)
    driver.climb(run, to=Step.COMMIT)
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


def test_partitions_that_a_writer_changes_are_not_planned(driver: Driver, trips: Trips) -> None:
    """Right after a DELETE its partition is left alone and the other rewritten; a while later its turn comes."""
    time.sleep(1.2)  # quiet_for: beside such a writer both would be left alone as long as they are new
    trips.delete(0, 2)
    first = driver.submit(trips, Service.COMPACTION)
    plan = driver.climb(first, to=Step.EXECUTE)
    assert plan is not None
    assert plan.file_groups == 1
    driver.pool.answer(first, Step.EXECUTE, Granted())
    assert isinstance(driver.finish(first), Succeeded)
    time.sleep(1.2)  # quiet_for

    assert isinstance(driver.carry_out(trips, Service.COMPACTION), Succeeded)
    assert trips.data_files() == 2
    assert trips.found() == trips.expected


def test_deletes_that_no_file_needs_any_more_go_with_the_compaction(driver: Driver, trips: Trips) -> None:
    """Position deletes that are older than every file are removed; the commit that does it bears the run as well."""
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
    """Too few small files are left as they are."""
    table = lake.trips()
    table.append(commits=3)
    pointer = table.read().metadata_location

    assert isinstance(driver.carry_out(table, Service.COMPACTION), NothingToDo)
    assert table.read().metadata_location == pointer


def test_a_run_takes_no_more_than_it_is_allowed(driver: Driver, trips: Trips) -> None:
    """With room for the files of one partition the other one waits for the next run."""
    outcome = driver.carry_out(trips, Service.COMPACTION, max_files=7)

    assert isinstance(outcome, Succeeded)
    assert outcome.figures["files_rewritten"] == 6
    assert trips.found() == trips.expected


def test_with_partial_progress_every_commit_but_the_last_says_that_more_follow(driver: Driver, trips: Trips) -> None:
    """Each piece is a commit of its own, and only the last one ends the run."""
    run = driver.submit(trips, Service.COMPACTION, partial_progress=True, max_commits=2)
    outcome = driver.finish(run)

    assert isinstance(outcome, Succeeded)
    assert outcome.figures["commits"] == 2
    assert [one.get("lakewarden.part") for one in trips.signed_by(run)] == ["more", None]
    assert trips.found() == trips.expected


def test_with_partial_progress_a_conflict_loses_its_piece_and_the_run_is_no_success(
    driver: Driver, trips: Trips
) -> None:
    """A writer has replaced files of one partition meanwhile, in a way that heats nothing: that piece fails, the other
    is committed, and none of the run's commits claims to be the last.
    """
    run = driver.submit(trips, Service.COMPACTION, partial_progress=True, max_commits=2)
    driver.climb(run, to=Step.COMMIT)
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


def test_a_table_that_is_gone_is_for_a_person(driver: Driver, lake: Lake) -> None:
    """A dropped table ends its run with a reason, and no other."""
    table = lake.trips()
    lake.catalog.drop_table(("db", table.name))
    outcome = driver.carry_out(table, Service.COMPACTION)

    assert isinstance(outcome, Failed)
    assert (outcome.kind, outcome.step) == (FailureKind.PERMANENT, Step.PLAN)
    assert table.name in outcome.reason
