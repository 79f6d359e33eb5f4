"""Iceberg's archive on real Spark: fewer manifests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakewarden.executors.contract import NothingToDo, Succeeded
from lakewarden.planners.model.instant import Service

if TYPE_CHECKING:
    from tests.support.iceberg.trips import Trips
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark


def test_small_manifests_become_few(driver: Driver, trips: Trips) -> None:
    """Manifests are rewritten by a commit with the run's id, and no data file is touched."""
    files = trips.files_on_disk()
    run = driver.submit(trips, Service.ARCHIVE, small_manifests=5)
    outcome = driver.finish(run)

    assert isinstance(outcome, Succeeded)
    assert (outcome.figures["manifests_rewritten"], outcome.figures["manifests_added"]) == (6, 1)
    [signed] = trips.signed_by(run)
    assert (signed["operation"], signed["lakewarden.service"]) == ("replace", "archive")
    assert len(trips.read().inspect.manifests()) == 1
    assert trips.files_on_disk() == files
    assert trips.found() == trips.expected

    again = driver.carry_out(trips, Service.ARCHIVE, small_manifests=5)
    assert isinstance(again, NothingToDo)


@pytest.mark.core
def test_manifests_of_deletes_stay_as_they_are_where_those_of_data_are_more(driver: Driver, trips: Trips) -> None:
    """A MERGE writer replaces its delete manifests all the time. A rewrite of these would conflict with it at nearly
    every commit.
    """
    trips.delete(0, 1)
    deletes = trips.manifests(content=1)
    assert deletes

    outcome = driver.carry_out(trips, Service.ARCHIVE, small_manifests=5)

    assert isinstance(outcome, Succeeded)
    assert trips.manifests(content=1) == deletes
    assert len(trips.manifests(content=0)) == 1
    assert trips.found() == trips.expected
