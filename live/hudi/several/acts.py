"""The acts with several writers: they begin one after another, write together, and end together."""

from __future__ import annotations

import contextlib
import json
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lakewarden.demo.daemon import Daemon, RefusedError
from lakewarden.demo.environment import Environment
from lakewarden.demo.formats.hudi.options import TableType
from lakewarden.demo.process import Child
from lakewarden.demo.reader import count_wrong_rows
from lakewarden.demo.run import START_SECONDS, DemoRun
from lakewarden.demo.snapshot import DemoState
from lakewarden.demo.writers.record import Batch, Record, read_record
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import Service
from lakewarden.service.http.schemas import RunBody
from live.acts import Acts
from live.hudi.policies import COMPACT_AT, policies_of_several
from live.hudi.several.blame import Told, Verdict, disagreements, judge
from live.hudi.several.casting import WRITER, Part, bring_releases, cast, second_opinion, written_by
from live.hudi.several.chronicle import Chronicle, unmerged_peak
from live.hudi.several.report import SeveralReport
from live.hudi.several.spark_reader import rows_by_spark
from live.hudi.travel import travel
from live.journey import Journey
from live.report import LiveReport
from live.script import Script

LATE = 2
"""So many times its trigger a compaction may wait at most."""

_READER_PAUSE_SECONDS = 3.0


class SeveralActs(Acts):
    """A table of one type and version under several writers, in days of their own or in shared ones."""

    def __init__(
        self,
        script: Script,
        stage: Environment,
        show: DemoRun,
        *,
        kind: TableType,
        writers: int,
        conflicts: bool,
        table_version: int,
        every_seconds: float,
        day_seconds: float,
    ) -> None:
        super().__init__(script, stage, show, policies_of_several(kind))
        self.table_type = kind
        self.writer_kind = "conflicting" if conflicts else "disjoint"
        self._kind = kind
        self._parts = cast(writers, table_version=table_version, conflicts=conflicts)
        self._conflicts = conflicts
        self._version = table_version
        self._every = every_seconds
        self._day = day_seconds
        self._chronicle = Chronicle(stage.table)
        self._runs: dict[str, RunBody] = {}
        self._told: dict[str, Told] = {}
        self._explained: Collection[str] = ()
        self._counted: Mapping[bool, int] = {}

    @property
    def promised(self) -> Collection[str]:
        """All but the rollback, which has something to do only where a writer fails."""
        return [name for name in self.policies if name != Service.ROLLBACK]

    @property
    def table_options(self) -> Mapping[str, Any]:
        """What is true of the writers: they take the options that the daemon prints."""
        return {"failed_writes": "lazy"}

    def perform(self) -> None:
        """Play them, one after another."""
        bring_releases(self._version)
        daemon = self.start_daemon()
        self._chronicle.start()
        self.stage.options.write_text(json.dumps(daemon.writer_options(), indent=2), encoding="utf-8")
        first, *others = self._parts
        started = [self.start_writer(lambda: self._start(first), daemon)]
        started += [self._start(part) for part in others]
        self.show.watch("starting the other writers", until=self._all_write, at_most=START_SECONDS)
        reader = self.stage.start_reader(pause_seconds=_READER_PAUSE_SECONDS)
        self.live(self.enough, time.monotonic() + self.script.minutes * 60)
        for writer in started:
            self.end_writer(writer)
        self.show.drain(daemon)
        self._ask(daemon)
        self.stage.stop_reader(reader)

    def look(self, scene: DemoState) -> None:
        """Remember what the daemon tells of runs and of failed writes: it tells only of the newest."""
        self._runs |= {run.id: run for run in scene.runs}
        if scene.table is not None and scene.table.writers is not None:
            for failure in scene.table.writers.failures:
                self._told[failure.instant] = Told(
                    instant=failure.instant, ours=failure.near_run is not None, reason=failure.reason
                )

    def play(self) -> None:
        """Play them, and stop looking on at the end."""
        super().play()
        self.look(self.last)
        self._chronicle.stop()
        self.last = replace(
            self.last, runs=tuple(sorted(self._runs.values(), key=lambda r: r.created_at, reverse=True))
        )

    def travel(self) -> list[Journey]:
        """Return what hudi-rs finds at every retained instant."""
        return travel(self.stage.table, self._records())

    def caused_by_us(self, failures: Sequence[Batch]) -> list[Batch]:
        """Return the failures that are our fault."""
        ours = {(verdict.batch, verdict.begun) for verdict in self._verdicts() if verdict.ours}
        return [batch for batch in failures if (batch.number, batch.begun.isoformat()) in ours]

    def told(self, report: LiveReport) -> LiveReport:
        """Return the report with the verdicts, the daemon's own account, the backlog, and the second reader's rows."""
        verdicts = self._verdicts()
        trouble = list(report.trouble)
        merges = Service.COMPACTION in self.policies
        return SeveralReport.of(
            report,
            wrong_by_spark=self._wrong_by_spark(trouble),
            trouble=trouble,
            table_version=self._version,
            releases=[part.release for part in self._parts],
            verdicts=verdicts,
            told=sorted(self._told.values(), key=lambda told: told.instant),
            disagreements=[*disagreements(verdicts, list(self._told.values())), *self._miscounts()],
            left_pending=self._chronicle.left(),
            unmerged_peak=unmerged_peak(self._chronicle.seen()) if merges else 0,
            unmerged_most=LATE * COMPACT_AT,
        )

    def _start(self, part: Part) -> Child:
        arguments = written_by(
            part,
            stage=self.stage,
            table_version=self._version,
            every=self._every,
            day=self._day,
            kind=self._kind,
            shared=self._conflicts,
        )
        if part == self._parts[0]:
            return self.stage.start("writer", WRITER, "--record", str(self.stage.record), *arguments)
        return self.stage.start_another_writer(f"writer-{part.shop}", WRITER, *arguments)

    def _records(self) -> dict[str, Record]:
        """Return the writers' records, by their signatures."""
        return {part.shop: read_record(path) for part, path in zip(self._parts, self.stage.records, strict=True)}

    def _all_write(self, _: DemoState) -> bool:
        return len(self.stage.records) == len(self._parts) and all(r.acknowledged() for r in self._records().values())

    def _ask(self, daemon: Daemon) -> None:
        """Note what its explanation and its metrics tell of the failed writes."""
        with contextlib.suppress(TemporaryError, RefusedError):
            explained = daemon.explain().writers
            self._explained = [failure.instant for failure in explained.failures] if explained else []
            self._counted = daemon.writer_failures()

    def _verdicts(self) -> list[Verdict]:
        failures = {shop: record.failures() for shop, record in self._records().items()}
        return judge(failures, self._chronicle.seen(), list(self._runs.values()))

    def _miscounts(self) -> list[str]:
        """Return where the daemon's metrics and its explanation do not tell what its API has told."""
        told = Counter(each.ours for each in self._told.values())
        found = [
            f"the metric counts {self._counted.get(ours, 0)} failed writes with near_us={str(ours).lower()}, "
            f"and the API told of {told[ours]}"
            for ours in (True, False)
            if self._counted.get(ours, 0) != told[ours]
        ]
        return found + [f"explain tells of {each}, and the API did not" for each in {*self._explained} - {*self._told}]

    def _wrong_by_spark(self, trouble: list[str]) -> int:
        expected = self.last.record.expected_rows()
        try:
            return count_wrong_rows(rows_by_spark(self.stage.table, release=second_opinion(self._version)), expected)
        except Exception as error:  # noqa: BLE001 - whatever a foreign reader raises: no row is right then
            trouble.append(f"Spark cannot read the table: {type(error).__name__}: {error}")
            return len(expected)
