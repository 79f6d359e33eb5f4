"""kill -9 of a worker's JVM while it rewrites an Iceberg table. A committed rewrite counts once, an uncommitted one is
repeated, and every row is right.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.catalogs.sqlite_driver import sqlite_driver
from tests.support.daemon.daemon_process import DaemonProcess
from tests.support.doubles import fault_points

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.iceberg.trips import Trips

pytestmark = pytest.mark.spark

COMPACTION = {"compaction": {"trigger": {"num_commits": 3}}}


class _Deaths:
    """A daemon with a worker that is held at a point of a run, until its JVM is killed there."""

    def __init__(self, daemon: DaemonProcess, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.daemon = daemon
        self._faults, self._standing = folder / "faults.json", folder / "stands-here"
        monkeypatch.setenv(fault_points.VARIABLE, str(self._faults))

    def will_be_at(self, point: str) -> None:
        """Hold the next run of a process at this point."""
        fault = {"point": point, "act": "hold", "service": "compaction", "told": str(self._standing)}
        half = self._faults.with_suffix(".half")
        half.write_text(json.dumps([fault]))
        half.rename(self._faults)

    def come(self, *, then_at: str | None = None) -> None:
        """Wait for the run, and kill its JVM. The next fault may be at another point."""
        self.daemon.until(self._standing.exists)
        self._faults.unlink()
        if then_at is not None:
            self.will_be_at(then_at)
        self.daemon.kill_worker_jvm()
        self._standing.unlink()

    def runs_until_success(self) -> list[dict[str, Any]]:
        """Return the compactions that have ended, the oldest first, once one has succeeded."""

        def ended() -> list[dict[str, Any]]:
            runs = [run for run in reversed(self.daemon.runs("compaction")) if run["state"] in {"SUCCEEDED", "FAILED"}]
            return runs if runs and runs[-1]["state"] == "SUCCEEDED" else []

        found: list[dict[str, Any]] = self.daemon.until(ended)
        return found


@pytest.fixture
def deaths(
    trips: Trips,
    daemon_of: Callable[..., DaemonProcess],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> _Deaths:
    """Make a daemon for the table."""
    conf = {"spark.driver.extraClassPath": str(sqlite_driver())}
    return _Deaths(daemon_of(trips, COMPACTION, formats=["iceberg"], conf=conf), tmp_path, monkeypatch)


def _check(trips: Trips, runs: list[dict[str, Any]], *, commits: list[int]) -> None:
    """Check the number of commits of each run, and that the table has all its rows, in two files."""
    assert [run["state"] for run in runs] == ["SUCCEEDED" if count else "FAILED" for count in commits]
    assert [len(trips.signed_by(run["id"])) for run in runs] == commits
    assert trips.data_files() == 2
    assert trips.found() == trips.expected


@pytest.mark.core
def test_a_run_killed_before_its_commit_has_failed_and_one_killed_right_after_has_succeeded(
    trips: Trips, deaths: _Deaths
) -> None:
    """The files of the first run are in no snapshot, and the work is repeated. The second run has succeeded, by the
    snapshot with its id, although its report never came. There is no third run.
    """
    deaths.will_be_at("executed")
    deaths.daemon.start()
    deaths.come(then_at="committed")
    deaths.come()

    _check(trips, deaths.runs_until_success(), commits=[0, 1])
    assert deaths.daemon.stop() == 0


@pytest.mark.faults
@pytest.mark.parametrize(
    ("point", "commits"),
    [("executing", [0, 1]), ("permitted", [0, 1]), ("proposed", [0, 1]), ("committed", [1]), ("settled", [1])],
)
def test_a_run_killed_at_a_point_is_settled_by_what_the_table_shows(
    trips: Trips, deaths: _Deaths, point: str, commits: list[int]
) -> None:
    """For every point the work is done once, and every row is right."""
    deaths.will_be_at(point)
    deaths.daemon.start()
    deaths.come()

    _check(trips, deaths.runs_until_success(), commits=commits)
    assert deaths.daemon.stop() == 0
