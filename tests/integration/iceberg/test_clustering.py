"""Iceberg's clustering on real Spark puts rows in order, and writes no file twice for it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from lakewarden.executors.contract import Failed, FailureKind, Granted, NothingToDo, Succeeded, Yielded
from lakewarden.planners.model.instant import Service, Step
from tests.integration.iceberg.deletions import EVERYTHING, Deletions

if TYPE_CHECKING:
    from tests.support.iceberg.trips import Trips
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark

AT_ONCE: dict[str, Any] = {"untouched_for": "0s"}


def _ids_in_files(trips: Trips) -> list[list[int]]:
    """Return the ids of each file in their order, by pyarrow."""
    paths = trips.read().inspect.data_files()["file_path"].to_pylist()
    return [pq.ParquetFile(path.removeprefix("file://")).read(columns=["id"])["id"].to_pylist() for path in paths]


@pytest.mark.core
def test_rows_are_sorted_as_asked_and_then_left_alone(driver: Driver, trips: Trips) -> None:
    """Each partition is one descending file. The same clustering then has no work there."""
    run = driver.submit(trips, Service.CLUSTERING, sort_order="id DESC NULLS LAST, v", **AT_ONCE)
    outcome = driver.finish(run)

    assert isinstance(outcome, Succeeded)
    assert [one["lakewarden.service"] for one in trips.signed_by(run)] == ["clustering"]
    files = _ids_in_files(trips)
    assert len(files) == 2
    assert all(ids == sorted(ids, reverse=True) for ids in files)
    assert trips.found() == trips.expected
    again = driver.carry_out(trips, Service.CLUSTERING, sort_order="id DESC NULLS LAST, v", **AT_ONCE)
    assert isinstance(again, NothingToDo)


def test_rows_that_are_added_during_a_clustering_do_not_conflict_with_it(driver: Driver, trips: Trips) -> None:
    """The partition is written to again, but no sorted file has changed. Both commits succeed."""
    time.sleep(1.2)  # untouched_for
    run = driver.submit(trips, Service.CLUSTERING, sort_order="id", untouched_for="1s")
    driver.advance(run, to=Step.COMMIT)
    trips.append()
    driver.pool.answer(run, Step.COMMIT, Granted())

    assert isinstance(driver.finish(run), Succeeded)
    assert trips.data_files() == 4
    assert trips.found() == trips.expected


def test_rows_are_laid_along_a_curve(driver: Driver, trips: Trips) -> None:
    """A z-order over two columns keeps every row."""
    outcome = driver.carry_out(trips, Service.CLUSTERING, zorder=["id", "v"], **AT_ONCE)

    assert isinstance(outcome, Succeeded)
    assert outcome.figures["files_rewritten"] == 12
    assert trips.found() == trips.expected


def test_partitions_that_were_written_to_of_late_are_left_alone(driver: Driver, trips: Trips) -> None:
    """After an append a clustering waits for a while, and writes nothing."""
    pointer = trips.read().metadata_location
    outcome = driver.carry_out(trips, Service.CLUSTERING, sort_order="id", untouched_for="1h")

    assert isinstance(outcome, Yielded)
    assert 3500 < outcome.delay.total_seconds() <= 3600
    assert trips.read().metadata_location == pointer


@pytest.mark.parametrize(
    ("order", "because"),
    [({}, "sort order"), ({"sort_order": "no_such_column"}, "no_such_column")],
    ids=["the table has no order of its own", "there is no such column"],
)
def test_an_order_that_cannot_be_is_for_a_person(
    driver: Driver, trips: Trips, order: dict[str, str], because: str
) -> None:
    """A retry would not help, and the reason names what is wrong."""
    outcome = driver.carry_out(trips, Service.CLUSTERING, **order, **AT_ONCE)

    assert isinstance(outcome, Failed)
    assert outcome.kind is FailureKind.PERMANENT
    assert because in outcome.reason
    assert len(trips.files_on_disk()) == 12


def test_files_of_expired_snapshots_are_put_in_order_once_and_only_once(driver: Driver, trips: Trips) -> None:
    """The commit that wrote them is gone from the table's history. The table itself records that a clustering wrote
    them.
    """
    table = Deletions(trips)
    assert isinstance(driver.carry_out(table, Service.CLEAN, **EVERYTHING), Succeeded)
    assert len(table.snapshots()) == 1
    first = driver.carry_out(trips, Service.CLUSTERING, sort_order="id DESC", **AT_ONCE)
    assert isinstance(first, Succeeded)
    assert first.figures["files_rewritten"] == 12

    trips.append()
    assert isinstance(driver.carry_out(table, Service.CLEAN, **EVERYTHING), Succeeded)
    assert len(table.snapshots()) == 1
    assert isinstance(driver.carry_out(trips, Service.CLUSTERING, sort_order="id DESC", **AT_ONCE), NothingToDo)
    trips.append(commits=4)
    second = driver.carry_out(
        trips, Service.CLUSTERING, sort_order="id DESC", partial_progress=True, max_commits=2, **AT_ONCE
    )
    assert isinstance(second, Succeeded)
    assert second.figures["commits"] == 2
    trips.append()
    assert isinstance(driver.carry_out(table, Service.CLEAN, **EVERYTHING), Succeeded)
    assert isinstance(driver.carry_out(trips, Service.CLUSTERING, sort_order="id DESC", **AT_ONCE), NothingToDo)
    assert trips.found() == trips.expected


def test_all_files_are_put_in_a_new_order_if_that_is_asked_for(driver: Driver, trips: Trips) -> None:
    """A clustering does not look at files that it has put in order before. A rewrite of all files does, and ends."""
    assert isinstance(driver.carry_out(trips, Service.CLUSTERING, sort_order="id", **AT_ONCE), Succeeded)
    assert isinstance(driver.carry_out(trips, Service.CLUSTERING, sort_order="id DESC", **AT_ONCE), NothingToDo)
    now = trips.read().current_snapshot()
    assert now is not None
    mark = f"{now.sequence_number}-{now.snapshot_id}"

    runs = [
        driver.finish(driver.submit(trips, Service.CLUSTERING, rewrite_all=mark, sort_order="id DESC", **AT_ONCE))
        for _ in range(2)
    ]

    assert [type(one) for one in runs] == [Succeeded, NothingToDo]
    assert all(ids == sorted(ids, reverse=True) for ids in _ids_in_files(trips))
    assert trips.found() == trips.expected
