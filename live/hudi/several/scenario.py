"""The scenario with several writers: they begin one after another, write at the same time, and end together."""

from __future__ import annotations

import contextlib
import json
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lakewarden.demo.daemon import Child, DaemonProcess, RequestRefusedError
from lakewarden.demo.environment import Environment
from lakewarden.demo.formats.hudi.options import TableType
from lakewarden.demo.reader import count_wrong_rows
from lakewarden.demo.run import START_SECONDS, DemoRun
from lakewarden.demo.snapshot import DemoState
from lakewarden.demo.writers.orders import Batch, Record, read_record
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import Service
from lakewarden.service.http.schemas import RunBody
from live.goal import Goal
from live.hudi.policies import policies_of_several
from live.hudi.several.blame import Blame, Told, disagreements, judge
from live.hudi.several.report import SeveralReport
from live.hudi.several.spark_reader import rows_by_spark
from live.hudi.several.timeline_watcher import TimelineWatcher, unmerged_peak
from live.hudi.several.writer_specs import WRITER, WriterSpec, bring_releases, second_opinion, writer_specs, written_by
from live.hudi.travel import travel
from live.journey import Journey
from live.report import LiveReport
from live.scenario import LiveScenario
from live.tally import late_compactions

_READER_PAUSE_SECONDS = 3.0


class SeveralWritersScenario(LiveScenario):
    """A table of one type and version under several writers. Each writer has days of its own, or they share the
    days.
    """

    def __init__(
        self,
        goal: Goal,
        environment: Environment,
        demo_run: DemoRun,
        *,
        kind: TableType,
        writers: int,
        conflicts: bool,
        table_version: int,
        every_seconds: float,
        day_seconds: float,
        waiting_clean: bool,
    ) -> None:
        super().__init__(goal, environment, demo_run, policies_of_several(kind, writers))
        self.table_type = kind
        self.writer_kind = "conflicting" if conflicts else "disjoint"
        self._kind = kind
        self._parts = writer_specs(writers, table_version=table_version, conflicts=conflicts)
        self._conflicts = conflicts
        self._version = table_version
        self._every = every_seconds
        self._day = day_seconds
        self._waiting_clean = waiting_clean
        self._watcher = TimelineWatcher(environment.table)
        self._runs: dict[str, RunBody] = {}
        self._told: dict[str, Told] = {}
        self._explained: Collection[str] = ()
        self._counted: Mapping[bool, int] = {}

    @property
    def promised(self) -> Collection[str]:
        """All services but the rollback, which has work only if a writer fails, and a clean that nobody approves."""
        left_out = {Service.ROLLBACK, Service.CLEAN} if self._waiting_clean else {Service.ROLLBACK}
        return [name for name in self.policies if name not in left_out]

    @property
    def table_options(self) -> Mapping[str, Any]:
        """The options of the writers: they take those that the daemon prints."""
        return {"failed_writes": "lazy", "dead_after": "3m"}

    @property
    def table_settings(self) -> Mapping[str, Any]:
        """The budget of a clean that waits for an approval which never comes."""
        return {"budget": {"first_clean": "ask", "shorter_retention": "allow"}} if self._waiting_clean else {}

    def run_steps(self) -> None:
        """Run the steps, one after another."""
        bring_releases(self._version)
        daemon = self.start_daemon()
        self._watcher.start()
        self.environment.options.write_text(json.dumps(daemon.writer_options(), indent=2), encoding="utf-8")
        first, *others = self._parts
        started = [self.start_writer(lambda: self._start(first), daemon)]
        started += [self._start(writer_spec) for writer_spec in others]
        self.demo_run.watch("starting the other writers", until=self._all_write, at_most=START_SECONDS)
        reader = self.environment.start_reader(pause_seconds=_READER_PAUSE_SECONDS)
        self.live(self.enough, time.monotonic() + self.goal.minutes * 60)
        for writer in started:
            self.end_writer(writer)
        self.demo_run.drain(daemon)
        self._ask(daemon)
        self.environment.stop_reader(reader)

    def look(self, state: DemoState) -> None:
        """Keep what the daemon reports of runs and of failed writes. It reports only the newest."""
        self._runs |= {run.id: run for run in state.runs}
        if state.table is not None and state.table.writers is not None:
            for failure in state.table.writers.failures:
                self._told[failure.instant] = Told(
                    instant=failure.instant, ours=failure.near_run is not None, reason=failure.reason
                )

    def run(self) -> None:
        """Run the scenario, and stop watching the timeline at the end."""
        super().run()
        self.look(self.last)
        self._watcher.stop()
        self.last = replace(
            self.last, runs=tuple(sorted(self._runs.values(), key=lambda r: r.created_at, reverse=True))
        )

    def travel(self) -> list[Journey]:
        """Return what hudi-rs finds at every retained instant."""
        return travel(self.environment.table, self._records())

    def caused_by_us(self, failures: Sequence[Batch]) -> list[Batch]:
        """Return the failures that Lakewarden has caused."""
        ours = {(verdict.batch, verdict.begun) for verdict in self._verdicts() if verdict.ours}
        return [batch for batch in failures if (batch.number, batch.begun.isoformat()) in ours]

    def told(self, report: LiveReport) -> LiveReport:
        """Return the report with the verdicts, the daemon's own account, the backlog, and the rows of the second
        reader.
        """
        verdicts = self._verdicts()
        errors = list(report.errors)
        merges = Service.COMPACTION in self.policies
        return SeveralReport.of(
            report,
            wrong_by_spark=self._wrong_by_spark(errors),
            errors=errors,
            table_version=self._version,
            releases=[writer_spec.release for writer_spec in self._parts],
            verdicts=verdicts,
            told=sorted(self._told.values(), key=lambda told: told.instant),
            disagreements=[*disagreements(verdicts, list(self._told.values())), *self._miscounts()],
            left_pending=self._watcher.left(),
            unmerged_peak=unmerged_peak(self._watcher.seen()) if merges else 0,
            late=late_compactions(list(self._runs.values())),
            left_out=sum(int(run.figures.get("file_groups_left_out", 0)) for run in self._runs.values()),
        )

    def _start(self, writer_spec: WriterSpec) -> Child:
        arguments = written_by(
            writer_spec,
            environment=self.environment,
            table_version=self._version,
            every=self._every,
            day=self._day,
            kind=self._kind,
            shared=self._conflicts,
        )
        if writer_spec == self._parts[0]:
            return self.environment.start("writer", WRITER, "--record", str(self.environment.record), *arguments)
        return self.environment.start_another_writer(f"writer-{writer_spec.shop}", WRITER, *arguments)

    def _records(self) -> dict[str, Record]:
        """Return the writers' records, by their signatures."""
        return {
            writer_spec.shop: read_record(path)
            for writer_spec, path in zip(self._parts, self.environment.records, strict=True)
        }

    def _all_write(self, _: DemoState) -> bool:
        return len(self.environment.records) == len(self._parts) and all(
            r.acknowledged() for r in self._records().values()
        )

    def _ask(self, daemon: DaemonProcess) -> None:
        """Keep what the daemon's explanation and its metrics say of the failed writes."""
        with contextlib.suppress(TemporaryError, RequestRefusedError):
            explained = daemon.explain().writers
            self._explained = [failure.instant for failure in explained.failures] if explained else []
            self._counted = daemon.writer_failures()

    def _verdicts(self) -> list[Blame]:
        failures = {shop: record.failures() for shop, record in self._records().items()}
        return judge(failures, self._watcher.seen(), list(self._runs.values()))

    def _miscounts(self) -> list[str]:
        """Return where the daemon's metrics and its explanation differ from its API."""
        told = Counter(each.ours for each in self._told.values())
        found = [
            f"the metric counts {self._counted.get(ours, 0)} failed writes with near_us={str(ours).lower()}, "
            f"and the API reported {told[ours]}"
            for ours in (True, False)
            if self._counted.get(ours, 0) != told[ours]
        ]
        return found + [f"explain reports {each}, and the API did not" for each in {*self._explained} - {*self._told}]

    def _wrong_by_spark(self, errors: list[str]) -> int:
        expected = self.last.record.expected_rows()
        try:
            return count_wrong_rows(
                rows_by_spark(self.environment.table, release=second_opinion(self._version)), expected
            )
        except Exception as error:  # noqa: BLE001 - whatever a foreign reader raises: no row is right then
            errors.append(f"Spark cannot read the table: {type(error).__name__}: {error}")
            return len(expected)
