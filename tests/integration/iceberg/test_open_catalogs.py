"""The connections that runs leave open in their JVM, as the operating system counts them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from lakewarden.executors.contract import Failed, NothingToDo
from lakewarden.planners.model.instant import Service

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.iceberg.trips import Lake, Trips
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark


@pytest.fixture
def handles(lake: Lake) -> Any:
    """Count the handles on the catalog's database in all processes but the writers'."""
    writers = int(lake.spark._jvm.java.lang.ProcessHandle.current().pid())

    def count() -> int:
        others = [one for one in psutil.Process().children(recursive=True) if one.pid != writers]
        return sum(file.path.endswith("/catalog.db") for one in others for file in one.open_files())

    return count


def test_idle_runs_leave_no_more_handles_than_the_first_one(driver: Driver, trips: Trips, handles: Any) -> None:
    """Each run once left a connection until the end of its JVM: thirty of thirty. A database has only a limited number
    for its writers.
    """
    driver.carry_out(trips, Service.CLEAN)
    before = handles()
    for _ in range(5):
        assert isinstance(driver.carry_out(trips, Service.CLEAN), NothingToDo)

    assert before >= 1
    assert handles() == before


def test_a_secret_that_has_changed_opens_the_catalog_anew(
    driver: Driver, trips: Trips, handles: Any, tmp_path: Path
) -> None:
    """The old connection is closed and does not stay beside the new one. A run that the database refuses leaves
    none.
    """
    password = tmp_path / "password"
    password.write_text("one")
    secret = {**trips.assigned["catalog"], "password": {"file": str(password)}}
    table = SimpleNamespace(assigned={**trips.assigned, "catalog": secret})
    driver.carry_out(table, Service.CLEAN)
    before = handles()
    password.write_text("two")
    assert isinstance(driver.carry_out(table, Service.CLEAN), NothingToDo)
    assert handles() == before

    nowhere = {**secret, "uri": f"jdbc:sqlite:{tmp_path}/nowhere/catalog.db"}
    lost = SimpleNamespace(assigned={**table.assigned, "catalog": nowhere})
    assert isinstance(driver.carry_out(lost, Service.CLEAN), Failed)
    assert isinstance(driver.carry_out(table, Service.CLEAN), NothingToDo)
    assert handles() == before
