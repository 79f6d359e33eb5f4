"""What the services of tables would do that their mode holds back, as a daemon tells it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Mode, TableId
from lakewarden.service.model.run import RunState
from lakewarden.service.reporting.forecasts import of_all, of_table
from lakewarden.service.rules.forecast import Basis
from tests.support.daemon.daemon_harness import TRIPS, DaemonHarness
from tests.support.values import NOW, a_run


def test_a_run_of_the_table_is_what_its_next_one_is_forecast_by(tmp_path: Path) -> None:
    """A run in the store outlives its daemon, and the change of the mode."""
    harness = DaemonHarness(tmp_path, mode=Mode.PLAN)
    harness.store.request(
        a_run(
            table=TRIPS,
            state=RunState.SUCCEEDED,
            started_at=NOW,
            ended_at=NOW + timedelta(seconds=30),
            figures={"commit_seconds": 1.0, "core_seconds": 12.5},
        )
    )
    harness.write(3)
    harness.until(lambda: bool(harness.status.tables()[0].would_run))

    found = of_table(harness.status, harness.status.tables()[0])[Service.COMPACTION]
    assert (found.basis, found.length, found.core_seconds) == (Basis.OWN, timedelta(seconds=30), 12.5)
    total = of_all(harness.status, harness.status.tables())[Service.COMPACTION]
    assert (total.tables, total.unknown, total.core_seconds) == (1, 0, 12.5)


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.PLAN])
def test_a_table_that_is_only_observed_shows_the_same_as_one_that_is_planned_for(tmp_path: Path, mode: Mode) -> None:
    """The decision names the mode, the forecast is the same, and no run begins."""
    harness = DaemonHarness(tmp_path, mode=mode)
    harness.write(5)
    harness.until(lambda: bool(harness.status.tables()[0].would_run))
    status = harness.status.table(TableId(TRIPS))
    assert status is not None

    assert set(status.would_run) == {Service.COMPACTION}
    assert of_table(harness.status, status)[Service.COMPACTION].basis is Basis.NONE
    assert of_all(harness.status, [status])[Service.COMPACTION].unknown == 1
    assert harness.runs() == []


def test_a_table_that_is_acted_on_holds_nothing_back(tmp_path: Path) -> None:
    """What is due there runs."""
    harness = DaemonHarness(tmp_path)
    harness.write(3)
    harness.until(lambda: harness.completed(Service.COMPACTION) != [])
    assert of_all(harness.status, harness.status.tables()) == {}
