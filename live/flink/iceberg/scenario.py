"""Flink is restored from its savepoint after Lakewarden has serviced its Iceberg table.

Two jobs fill two tables. They are stopped. A real daemon compacts and cleans one table until it finds nothing more to
do. A careless nightly job keeps only the newest snapshot of the other table. Then both jobs are restored. Takes about
five minutes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from lakewarden.demo.daemon import DaemonProcess, environment
from lakewarden.executors.worker import bundles
from lakewarden.planners.model.instant import Service
from lakewarden.service.model.run import RunState
from live.flink.found import Found
from live.flink.iceberg.lake import Lake
from live.flink.iceberg.writer import ROWS, FlinkWriter
from live.flink.process import UnfinishedError
from live.sqlite_driver import SQLITE

_COMMITS = 4
_TIMEOUT_SECONDS = 180.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Fate:
    """What happened to one table: its snapshots before and after the services, why its job could not be restored (None
    if it could), and its rows at the end. `twice` counts the rows that are there more than once.
    """

    before: int
    after: int
    not_restored: str | None
    rows: int
    twice: int

    @property
    def right(self) -> bool:
        """Whether every row is there exactly once."""
        return self.not_restored is None and self.rows == ROWS and self.twice == 0


def run(folder: Path) -> Found:
    """Run the scenario. It is proved only if no row of Lakewarden's table is wrong, a snapshot of it expired, and the
    other table shows the danger. Raises UnfinishedError.
    """
    ours, theirs = _run(folder)
    report = {"rows": ROWS, "lakewarden": asdict(ours), "careless": asdict(theirs)}
    return Found(report=report, proved=ours.right and ours.after < ours.before and not theirs.right)


def _run(folder: Path) -> tuple[Fate, Fate]:
    lake = Lake(folder)
    caretakers: Mapping[str, Callable[[Lake, str], None]] = {
        "ours": partial(_lakewarden, folder / "daemon"),
        "theirs": _careless,
    }
    writers = {name: FlinkWriter(name, lake, folder) for name in caretakers}
    savepoints = {name: _filled(name, writer, lake) for name, writer in writers.items()}
    fates = []
    for name, take_care in caretakers.items():
        before = lake.commits(name)
        take_care(lake, name)
        after = lake.commits(name)
        print(f"{name}: {before} snapshots became {after}", flush=True)
        not_restored = writers[name].restored(savepoints[name], within=_TIMEOUT_SECONDS)
        print(f"{name}: {not_restored or 'restored'}", flush=True)
        contents = lake.contents(name)
        fates.append(
            Fate(before=before, after=after, not_restored=not_restored, rows=contents.rows, twice=contents.twice)
        )
    ours, theirs = fates
    return ours, theirs


def _filled(name: str, writer: FlinkWriter, lake: Lake) -> str:
    """Let a job commit several times, stop it, and return its savepoint."""
    savepoint = writer.until_stopped(lambda: lake.commits(name) >= _COMMITS, within=_TIMEOUT_SECONDS)
    print(f"{name}: stopped with {lake.commits(name)} commits", flush=True)
    return savepoint


def _lakewarden(folder: Path, lake: Lake, name: str) -> None:
    """Let a daemon compact and clean the table until nothing is left to do. No age and no number keeps a snapshot."""
    daemon = DaemonProcess(
        folder,
        table={
            "format": "iceberg",
            "path": lake.location(name),
            "poll": "1s",
            "options": {"longest_outage": "1s"},
        },
        services={
            "compaction": {"trigger": {"num_commits": 1}, "options": {"min_input_files": 2}},
            "clean": {"options": {"max_snapshot_age": "1s", "min_snapshots_to_keep": 1}},
        },
        settings={
            "catalogs": {"lake": {"format": "iceberg", **lake.settings}},
            "spark": {"default": {"conf": {"spark.driver.extraClassPath": str(bundles.bring(SQLITE))}}},
        },
    )
    try:
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        while not (daemon.ready() and _has_nothing_left_to_do(daemon)):
            if time.monotonic() > deadline or daemon.process.exit_code is not None:
                raise UnfinishedError(f"the daemon has not cleaned the table: {daemon.process.last_words(20)}")
            time.sleep(1)
    finally:
        daemon.stop()


def _has_nothing_left_to_do(daemon: DaemonProcess) -> bool:
    runs = daemon.runs()
    succeeded = {run.service for run in runs if run.state == RunState.SUCCEEDED}
    at_rest = all(run.ended_at is not None for run in runs)
    decided = [one.decision for one in daemon.table().services.values()]
    not_due = all(one is not None and one.decision == "NotDue" for one in decided)
    return succeeded == {Service.COMPACTION, Service.CLEAN} and at_rest and not_due


def _careless(lake: Lake, name: str) -> None:
    command = [sys.executable, "-m", "live.flink.iceberg.careless", "--table", lake.identifier(name)]
    command += ["--catalog", json.dumps(dict(lake.settings))]
    ended = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise UnfinishedError(f"the careless nightly job failed: {ended.stderr[-500:]}")
