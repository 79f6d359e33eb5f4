"""Iceberg's clustering on real Spark: rows in an order, and no file written twice for it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from lakewarden.executors.contract import Failed, FailureKind, Granted, NothingToDo, Step, Succeeded, Yielded
from lakewarden.planners.model.instant import Service

if TYPE_CHECKING:
    from tests.integration.conftest import Driver
    from tests.integration.iceberg.conftest import Trips

pytestmark = pytest.mark.spark

AT_ONCE: dict[str, Any] = {"untouched_for": "0s"}


def _ids_in_files(trips: Trips) -> list[list[int]]:
    """Return the ids of each file in the order in which they lie there, by pyarrow."""
    paths = trips.read().inspect.data_files()["file_path"].to_pylist()
    return [pq.ParquetFile(path.removeprefix("file://")).read(columns=["id"])["id"].to_pylist() for path in paths]


@pytest.mark.core
def test_rows_are_sorted_as_asked_and_then_left_alone(driver: Driver, trips: Trips) -> None:
    """Each partition is one descending file; the same clustering has nothing to do there again."""
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


def test_rows_that_are_added_during_a_clustering_are_in_nobodys_way(driver: Driver, trips: Trips) -> None:
    """The partition is written to again, but nothing that was sorted has changed: both commits stand."""
    time.sleep(1.2)  # untouched_for
    run = driver.submit(trips, Service.CLUSTERING, sort_order="id", untouched_for="1s")
    driver.climb(run, to=Step.COMMIT)
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
    """Appends keep a clustering off for a while, and nothing is written."""
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
    """Trying again would not help, and the reason names what is wrong."""
    outcome = driver.carry_out(trips, Service.CLUSTERING, **order, **AT_ONCE)

    assert isinstance(outcome, Failed)
    assert outcome.kind is FailureKind.PERMANENT
    assert because in outcome.reason
    assert len(trips.files_on_disk()) == 12
