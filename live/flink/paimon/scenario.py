"""Flink jobs of two releases write a table with a primary key and one without, beside a daemon that takes care of both.

Each job is stopped with a savepoint. The daemon works until nothing is due. Then the job is restored, and writes the
rest. A reader without code of Paimon reads both tables all the time. Takes about five minutes.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lakewarden.demo.daemon import DaemonProcess
from lakewarden.executors.on_spark import Bundle
from lakewarden.executors.worker import bundles
from lakewarden.planners.model.instant import Service
from lakewarden.planners.registry import FORMATS
from lakewarden.service.model.run import RunState
from lakewarden.service.reporting.explain.bodies import TableExplanation
from live.flink.found import Found
from live.flink.paimon.shop import KEYS, Shop
from live.flink.process import FlinkJob, RunningJob, UnfinishedError
from live.paimon.lost_files import LostFiles
from live.paimon.policies import TABLE_OPTIONS, policies

ROWS = 10_000

_RELEASES = {
    "0.9.0": ("551bfcbe79aeff8aa7056da80ae239d029c2c6092ecae107b0571a53025519d4", 46_902_595),
    "1.3.1": ("a333b7a3df6143b782d129895f64575f0007912c4a2c85502d421b8198f42ce1", 52_878_037),
}
_REPORTS_PARTITIONS = "1.3.1"
"""The release that can report partitions by HTTP."""

_DONE = {
    "partition.idle-time-to-done": "3 s",
    "partition.time-interval": "1 d",
    "partition.timestamp-formatter": "yyyy-MM-dd",
    "partition.timestamp-pattern": "$dt",
}
_TTL: dict[str, Any] = {"trigger": {"num_commits": 1}, "options": {"retain": "1d", "strategy": "update-time"}}
"""The days of the rows are long past, and the rows are new: nothing may be dropped."""

_COMPACTIONS = 2
_TIMEOUT_SECONDS = 180.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Fate:
    """What happened to one table. `complaints` are the different things that were wrong whenever it was read.
    `orphans_deleted` are those files of killed writers that are gone.
    """

    reads: int
    complaints: tuple[str, ...]
    newest: int
    compactions: int
    level_0_files: int
    orphans_deleted: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Course:
    """What happened to the tables of one release. `not_restored` is why the job failed after its savepoint, None if it
    did not. `compacted_between` are the compactions between the savepoint and the restored job.
    `decisions` are the last ones on each service of each table.
    """

    not_restored: str | None
    tables: dict[str, Fate]
    runs: dict[str, dict[str, int]]
    compacted_between: int
    decisions: dict[str, dict[str, str]]
    partitions_reported: int
    daemon_exit_code: int | None

    def right(self, *, reports: bool) -> bool:
        """Whether each row is there once, and whether nothing failed."""
        tables = self.tables.values()
        return (
            self.not_restored is None
            and self.daemon_exit_code == 0
            and all(not table.complaints and table.newest == ROWS and table.reads > 3 for table in tables)
            and all(table.compactions >= _COMPACTIONS and table.orphans_deleted > 0 for table in tables)
            and self.tables["orders"].level_0_files == 0
            and not any(how.endswith(RunState.FAILED) for ended in self.runs.values() for how in ended)
            and (self.partitions_reported > 0 or not reports)
        )


def run(folder: Path) -> Found:
    """Run the scenario with each release. Raises UnfinishedError."""
    courses = {}
    for release in _RELEASES:
        below = folder / release
        below.mkdir()
        courses[release] = _Course(below, release).run()
        print(f"{release}: {courses[release]}", flush=True)
    proved = all(course.right(reports=release == _REPORTS_PARTITIONS) for release, course in courses.items())
    return Found(report={"rows": ROWS, **{name: asdict(course) for name, course in courses.items()}}, proved=proved)


class _Course:
    """The course with one release."""

    def __init__(self, folder: Path, release: str) -> None:
        self._folder = folder
        self._release = release
        self._shop = Shop(folder)
        self._lost = {table: LostFiles(place) for table, place in self._shop.folders.items()}
        self._reads: Counter[str] = Counter()
        self._complaints: dict[str, set[str]] = {table: set() for table in self._shop.folders}

    def run(self) -> Course:
        """Run the steps, one after another."""
        daemon = self._daemon()
        try:
            job = self._job(daemon)
            savepoint = self._stopped(job.begun("first", None, rows=ROWS))
            before = self._compactions()
            self._wait(daemon, lambda: self._has_nothing_left_to_do(daemon))
            between = self._compactions() - before
            print(f"{self._release}: restored after {between} compactions since its savepoint", flush=True)
            not_restored = self._watched(job.begun("restored", savepoint, rows=ROWS))
            self._wait(daemon, lambda: self._has_nothing_left_to_do(daemon) and self._has_deleted_orphans())
            runs: dict[str, Counter[str]] = {table: Counter() for table in self._shop.folders}
            for one in daemon.runs():
                runs[one.table][f"{one.service} {one.state}"] += 1
            decisions = {table: _decisions(daemon.explain(table)) for table in self._shop.folders}
            reported = daemon.hooks_accepted()
        finally:
            daemon.stop()
        self._read()
        return Course(
            not_restored=not_restored,
            tables={table: self._fate(table) for table in self._shop.folders},
            runs={table: dict(ended) for table, ended in runs.items()},
            compacted_between=between,
            decisions=decisions,
            partitions_reported=reported,
            daemon_exit_code=daemon.process.exit_code,
        )

    def _daemon(self) -> DaemonProcess:
        tables = [
            {
                "id": name,
                "mode": "act",
                "format": "paimon",
                "path": str(place),
                "poll": "1s",
                "options": dict(TABLE_OPTIONS),
                "services": {**policies(FORMATS["paimon"].services), Service.TTL.value: deepcopy(_TTL)},
            }
            for name, place in self._shop.folders.items()
        ]
        return DaemonProcess(self._folder / "daemon", table=tables[0], services={}, settings={"tables": tables})

    def _job(self, daemon: DaemonProcess) -> FlinkJob:
        """Return the job, with the options that the daemon prints for each table."""
        orders = {"bucket": "2", **_taken(daemon.writer_options("orders", engine="flink"), reports=False)}
        reports = self._release == _REPORTS_PARTITIONS
        events = {"bucket": "-1", **_taken(daemon.writer_options("events", engine="flink"), reports=reports)}
        if reports:
            events |= _DONE
        place = ("--warehouse", self._shop.warehouse.as_uri(), "--keys", str(KEYS))
        told = (*place, "--orders", json.dumps(orders), "--events", json.dumps(events))
        checksum, size = _RELEASES[self._release]
        jar = bundles.bring(
            Bundle(
                group="org.apache.paimon",
                artifact="paimon-flink-1.20",
                version=self._release,
                sha256=checksum,
                size=size,
            )
        )
        return FlinkJob("job", Path(__file__).with_name("job.py"), told, self._folder, jar=jar)

    def _stopped(self, job: RunningJob) -> str:
        try:
            job.until(self._is_half_done, within=_TIMEOUT_SECONDS)
            savepoint = job.stopped(within=_TIMEOUT_SECONDS)
        finally:
            job.end()
        print(f"{self._release}: stopped at {self._shop.newest('orders')}", flush=True)
        return savepoint

    def _watched(self, job: RunningJob) -> str | None:
        try:
            job.until(self._read, within=_TIMEOUT_SECONDS)
            return job.failure(within=_TIMEOUT_SECONDS)
        finally:
            job.end()

    def _is_half_done(self) -> bool:
        self._read()
        compacted = all(self._shop.compactions(table) for table in self._shop.folders)
        return compacted and self._shop.newest("orders") > ROWS // 3

    def _has_nothing_left_to_do(self, daemon: DaemonProcess) -> bool:
        if not daemon.ready() or any(one.ended_at is None for one in daemon.runs()):
            return False
        if self._shop.level_0_files("orders"):
            for table in self._shop.folders:
                daemon.request_run(Service.COMPACTION, table)
            return False
        return True

    def _has_deleted_orphans(self) -> bool:
        """Whether files of killed writers are gone from each table. It takes two listings, with a rest between them."""
        return all(lost.deleted() for lost in self._lost.values())

    def _wait(self, daemon: DaemonProcess, until: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        while not until():
            self._read()
            if time.monotonic() > deadline or daemon.process.exit_code is not None:
                raise UnfinishedError(f"the daemon has work left: {daemon.process.last_words(20)}")
            time.sleep(1)

    def _read(self) -> bool:
        """Read both tables, and keep what is wrong. Leave files that no commit names. Returns False: no read is the
        last one.
        """
        for table in self._shop.folders:
            self._lost[table].look()
            try:
                complaint = self._shop.complaint(table)
            except (OSError, ValueError) as error:
                complaint = f"{type(error).__name__}: {error}"
            self._complaints[table] |= {complaint} - {""}
            self._reads[table] += 1
        return False

    def _compactions(self) -> int:
        return sum(self._shop.compactions(table) for table in self._shop.folders)

    def _fate(self, table: str) -> Fate:
        return Fate(
            reads=self._reads[table],
            complaints=tuple(sorted(self._complaints[table])),
            newest=self._shop.newest(table),
            compactions=self._shop.compactions(table),
            level_0_files=self._shop.level_0_files(table),
            orphans_deleted=self._lost[table].deleted(),
        )


def _taken(printed: dict[str, str], *, reports: bool) -> dict[str, str]:
    """Return the options of a job. Those of reports are left out if the release cannot report."""
    return {key: value for key, value in printed.items() if reports or not key.startswith("partition.")}


def _decisions(explained: TableExplanation) -> dict[str, str]:
    return {
        service: "none" if one.decision is None else f"{one.decision.decision}: {one.decision.reason}"
        for service, one in explained.services.items()
    }
