"""kill -9 of a worker's JVM while it rewrites an Iceberg table: what was committed counts once, what was not is made
again, and every row is right.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from lakewarden.executors import faultpoints
from tests.integration.daemon.conftest import DaemonProcess, daemon_of  # noqa: F401 - a fixture
from tests.support.sqlite_driver import sqlite_driver

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.iceberg.conftest import Trips

pytestmark = pytest.mark.spark

COMPACTION = {"compaction": {"trigger": {"num_commits": 3}}}


class _Deaths:
    """A daemon whose worker stands still at a point of a run, until its JVM is killed there."""

    def __init__(self, daemon: DaemonProcess, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.daemon = daemon
        self._faults, self._standing = folder / "faults.json", folder / "stands-here"
        monkeypatch.setenv(faultpoints.VARIABLE, str(self._faults))

    def will_be_at(self, point: str) -> None:
        """Let the next run of a process that passes the point stand still there."""
        fault = {"point": point, "act": "hold", "service": "compaction", "told": str(self._standing)}
        half = self._faults.with_suffix(".half")
        half.write_text(json.dumps([fault]))
        half.rename(self._faults)

    def come(self, *, then_at: str | None = None) -> None:
        """Wait for the run, and kill its JVM; the next death may be at another point."""
        self.daemon.until(self._standing.exists, within=120)
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
    daemon_of: Callable[..., DaemonProcess],  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> _Deaths:
    """Make a daemon for the table."""
    conf = {"spark.driver.extraClassPath": str(sqlite_driver())}
    return _Deaths(daemon_of(trips, COMPACTION, formats=["iceberg"], conf=conf), tmp_path, monkeypatch)


def _check(trips: Trips, runs: list[dict[str, Any]], *, commits: list[int]) -> None:
    """Check that the runs have made so many commits each, and that the table has all its rows, in two files."""
    assert [run["state"] for run in runs] == ["SUCCEEDED" if count else "FAILED" for count in commits]
    assert [len(trips.signed_by(run["id"])) for run in runs] == commits
    assert trips.data_files() == 2
    assert trips.found() == trips.expected


@pytest.mark.core
def test_a_run_killed_before_its_commit_has_failed_and_one_killed_right_after_has_succeeded(
    trips: Trips, deaths: _Deaths
) -> None:
    """What the first had written is in no snapshot, and is made again. The second has succeeded, by the snapshot that
    bears its name, although nobody heard it say so, and there is no third.
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
    """Whatever the moment, the work is done once, and every row is right."""
    deaths.will_be_at(point)
    deaths.daemon.start()
    deaths.come()

    _check(trips, deaths.runs_until_success(), commits=commits)
    assert deaths.daemon.stop() == 0
