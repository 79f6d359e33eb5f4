"""The scenario with every kind of writer: the two of the suite, one for each other table, and an incremental reader."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lakewarden.demo.daemon import TABLE, Child, DaemonProcess
from lakewarden.demo.environment import Environment
from lakewarden.demo.formats.iceberg.demo import NAMESPACE
from lakewarden.demo.reader import count_wrong_rows
from lakewarden.demo.run import START_SECONDS, DemoRun
from lakewarden.demo.snapshot import DemoState
from lakewarden.demo.writers.orders import Record, read_record
from lakewarden.planners.model.instant import Service
from lakewarden.service.http.schemas import RunBody
from live.findings import writer_tally
from live.goal import Goal
from live.iceberg.catalog_demo import TABLE_OPTIONS, driver, jdbc_catalog
from live.iceberg.scenario import IcebergScenario
from live.iceberg.together.appends import MARKED_EVERY
from live.iceberg.together.incremental import Reading, read_readings
from live.iceberg.together.report import IncrementalTally, TableTally, TogetherReport
from live.iceberg.together.rows import expected, found
from live.iceberg.together.spark_queries import LONGEST_LAG, STREAMS, MicroBatch, read_micro_batches
from live.iceberg.together.streams import RENAMED_BEFORE
from live.iceberg.together.tables import CREATED, Name, create, entry, identifier, open_catalog
from live.report import LiveReport, LiveWriterTally
from live.tally import tallies

_EVERY_SECONDS = {Name.UPSERTS: 3.0, Name.STAGED: 2.0, Name.BRANCHED: 2.5, Name.MOVING: 2.5, Name.STREAMED: 2.5}
_BETWEEN_COUNTS_SECONDS = 5.0


class TogetherScenario(IcebergScenario):
    """One daemon services all tables. Commits are counted together, and reported by writer and by table."""

    writer_kind = "every kind of"
    append_every_seconds = 2
    reader_pause_seconds = 3.0

    def __init__(self, goal: Goal, environment: Environment, demo_run: DemoRun) -> None:
        super().__init__(goal, environment, demo_run)
        self._runs: dict[str, RunBody] = {}
        self._queries = environment.directory / "incremental.jsonl"
        self._streams = environment.directory / "streams"
        self._others: dict[Name, int] = dict.fromkeys(CREATED, 0)
        self._counted_at = 0.0

    def start_others(self) -> Sequence[Child]:
        """Start a writer for each other table, and the incremental readers, which end after them. The streams are there
        before the first row.
        """
        catalog = open_catalog(self.environment.directory)
        for name in CREATED:
            create(catalog, self.environment.directory, name, folder=name)
        streams = self._start_streams()
        writers = [self._start(name) for name in CREATED]
        self.demo_run.watch("starting the other writers", until=lambda _: self._all_write(), at_most=START_SECONDS)
        incremental = self.environment.start(
            "incremental",
            "live.iceberg.together.incremental",
            *("--directory", str(self.environment.directory), "--queries", str(self._queries)),
        )
        return (*writers, incremental, streams)

    def start_daemon(self) -> DaemonProcess:
        """Start the daemon with all tables."""
        own = self.demo_run.table_entry()
        services = {name: _for_other_tables(name, policy) for name, policy in self.policies.items()}
        declared = [{"name": name, "longest_lag": LONGEST_LAG} for name in STREAMS]
        options = {Name.STREAMED: {**TABLE_OPTIONS, "readers": declared}}
        others = [entry(name, services=services, options=options.get(name, TABLE_OPTIONS)) for name in Name]
        # each table gets a copy; YAML would write a value that two entries share as an alias
        first = {"id": TABLE, "mode": "act", **own, "services": dict(self.policies)}
        self.daemon = self.environment.start_daemon(
            table=own, services=self.policies, settings={"tables": json.loads(json.dumps([first, *others]))}
        )
        self.demo_run.observer.meet(self.daemon)
        return self.daemon

    def look(self, state: DemoState) -> None:
        """Keep the runs, since the daemon reports only the newest, and count the other writers' commits."""
        super().look(state)
        self._runs |= {run.id: run for run in state.runs}
        if time.monotonic() > self._counted_at + _BETWEEN_COUNTS_SECONDS:
            self._counted_at = time.monotonic()
            self._others = {name: len(self._record(name).acknowledged()) for name in CREATED}

    def enough(self, state: DemoState) -> bool:
        """Whether every service has succeeded often enough, the table was renamed, a sink has twice gone on from its
        mark, and all commits were made.
        """
        all_commits = state.commits + sum(self._others.values())
        renamed = self._others[Name.MOVING] > RENAMED_BEFORE
        marks_found = self._others[Name.STAGED] >= 3 * MARKED_EVERY
        return self.each_succeeded(state) and renamed and marks_found and all_commits >= self.goal.commits

    def phase(self, state: DemoState) -> str:
        """Return what is going on."""
        done = ", ".join(f"{name} {tally.succeeded}" for name, tally in tallies(state.runs).items())
        return f"live: {state.commits + sum(self._others.values())} of {self.goal.commits} commits; {done}"

    def run(self) -> None:
        """Run the scenario, and keep the reports of all runs."""
        super().run()
        self.look(self.last)
        runs = sorted(self._runs.values(), key=lambda run: run.created_at, reverse=True)
        self.last = replace(self.last, runs=tuple(runs))

    def told(self, report: LiveReport) -> LiveReport:
        """Return the report with the other writers, their tables and the incremental reader."""
        return TogetherReport.of(
            report,
            others={str(name): self._tally(name) for name in CREATED},
            tables=self._tables(),
            incremental=self._incremental(),
            streams={name: self._stream(name) for name in STREAMS},
        )

    def _start_streams(self) -> Child:
        self._streams.mkdir()
        directory = self.environment.directory
        catalog = ("--catalog", json.dumps(jdbc_catalog(directory)), "--jar", str(driver()))
        place = ("--directory", str(directory), "--readings", str(self._streams))
        child = self.environment.start("streams", "live.iceberg.together.spark_queries", *place, *catalog)
        begun = [self._readings_of(name) for name in STREAMS]
        self.demo_run.watch(
            "starting the streams", until=lambda _: all(file.exists() for file in begun), at_most=START_SECONDS
        )
        return child

    def _readings_of(self, stream: str) -> Path:
        return self._streams / f"{stream}.jsonl"

    def _start(self, name: Name) -> Child:
        record = ("--record", str(self._record_file(name)), "--every", str(_EVERY_SECONDS[name]))
        directory = self.environment.directory
        if name is not Name.UPSERTS:
            place = ("--table", str(name), "--directory", str(directory))
            return self.environment.start(name, "live.iceberg.together.appends", *place, *record)
        folder = directory / "warehouse" / NAMESPACE / name / "data"
        catalog = ("--catalog", json.dumps(jdbc_catalog(directory)), "--jar", str(driver()))
        return self.environment.start(name, "live.iceberg.together.upserts", "--folder", str(folder), *catalog, *record)

    def _record_file(self, name: Name) -> Path:
        return self.environment.directory / f"{name}.jsonl"

    def _record(self, name: Name) -> Record:
        return read_record(self._record_file(name))

    def _all_write(self) -> bool:
        return all(self._record(name).acknowledged() for name in CREATED)

    def _tally(self, name: Name) -> LiveWriterTally:
        return writer_tally(self, self._record(name))

    def _tables(self) -> Mapping[str, TableTally]:
        catalog = open_catalog(self.environment.directory)
        tables = {}
        for name in CREATED:
            for (table, branch), rows in expected(name, self._record(name)).items():
                shown = str(table) if branch == "main" else f"{table}@{branch}"
                try:
                    is_there, twice = found(catalog.load_table(identifier(table)), branch)
                except Exception as error:  # noqa: BLE001 - whatever a foreign reader raises: no row is right then
                    why = f"it cannot be read: {type(error).__name__}: {error}"
                    tables[shown] = TableTally(expected=len(rows), wrong=len(rows), unreadable=why)
                else:
                    wrong = count_wrong_rows(is_there, rows)
                    tables[shown] = TableTally(expected=len(rows), wrong=wrong, twice=twice)
        return tables

    def _incremental(self) -> IncrementalTally:
        return self._read_once(Name.STAGED, read_readings(self._queries))

    def _stream(self, name: str) -> IncrementalTally:
        return self._read_once(Name.STREAMED, read_micro_batches(self._readings_of(name)))

    def _read_once(self, table: Name, readings: Sequence[Reading | MicroBatch]) -> IncrementalTally:
        ids = [id_ for reading in readings for id_ in reading.ids]
        committed = {int(row.key) for batch in self._record(table).acknowledged() for row in batch.rows}
        return IncrementalTally(
            readings=len(readings),
            rows=len(ids),
            failures=tuple(reading.failure for reading in readings if reading.failure),
            missed=len(committed - set(ids)),
            twice=len(ids) - len(set(ids)),
        )


def _for_other_tables(service: str, policy: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a policy of the suite's table for tables of other columns. Clean runs more often there, so that it finds
    each mark of a sink, and each place where a stream stands, when it is old enough to expire.
    """
    if service == Service.CLUSTERING:
        return {**policy, "options": {**policy["options"], "sort_order": "id"}}
    return {**policy, "trigger": {"num_commits": 8}} if service == Service.CLEAN else policy
