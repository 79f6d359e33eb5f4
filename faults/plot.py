"""From an empty folder to the verdict: stage, rounds, drain, checker."""

from __future__ import annotations

import shutil
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from rich.console import Console

from faults.arms import Arms
from faults.checker import Rule, Violation, violations
from faults.deaths import Deaths
from faults.deck import deal
from faults.evidence import gather, read_runs
from faults.history import StoredRun
from faults.ledger import SqliteLedger
from faults.report import FaultsReport, line_of, report_of, tell
from faults.rounds import NeverCameBackError, Rounds
from lakewarden.executors.demo.hudi_options import TableType, Workload
from lakewarden.executors.demo.record import read_record
from lakewarden.executors.worker import bundles
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.service.demo.interruption import InterruptedDemoError, Interruption
from lakewarden.service.demo.process import Child
from lakewarden.service.demo.report import WriterTally
from lakewarden.service.demo.stage import Stage
from live.plot import left_behind

WHOLE, VIOLATED, HARNESS_FAILED = 0, 1, 2
"""Exit codes. The last says nothing about Lakewarden: the harness, the writer or the machine is to blame."""

POLICIES: Mapping[str, Any] = {
    "compaction": {"trigger": {"num_commits": 3}},
    "log_compaction": {"trigger": {"num_commits": 2}, "options": {"log_blocks_threshold": 2}},
    "clustering": {
        "trigger": {"num_commits": 3},
        "options": {"untouched_for": "25s", "sort_columns": ["order_id"]},
    },
    "clean": {"trigger": {"num_commits": 2}, "options": {"commits_retained": 6}},
    "archive": {"trigger": {"num_commits": 3}, "options": {"keep_min_commits": 10, "keep_max_commits": 13}},
}
"""Every service that runs by itself, as often as it can beside a writer."""

SETTINGS: Mapping[str, Any] = {
    "spark": {"default": {"memory": "768m", "master": "local[2]", "hung_after": "15s"}},
}

_WRITER_EVERY_SECONDS = 2.5
_START_SECONDS = 240.0
_WRITER_ENDS_SECONDS = 180.0
_DRAINED_WITHIN_SECONDS = 420.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What one run of the harness is to be."""

    rounds: int
    seed: int
    report: Path | None


def play(asked: Asked) -> int:
    """Play in a directory of its own, which stays unless all was well; return the exit code.

    128 + the signal's number after Ctrl-C or SIGTERM. To be called in the main thread, for the signals.
    """
    console = Console(highlight=False)
    directory = Path(tempfile.mkdtemp(prefix="lakewarden-faults-"))
    console.print(f"seed {asked.seed}, in {directory}", soft_wrap=True)
    code = HARNESS_FAILED
    try:
        with Interruption() as interruption:
            with interruption.at_once():
                bundles.fetch(("hudi",), say=console.print)
            report = _Performance(asked, directory, console, interruption).play()
        if asked.report is not None:
            report.write(asked.report)
        report.write(directory / "report.json")
        tell(console, report)
        code = VIOLATED if report.violations else WHOLE
    except InterruptedDemoError as interrupted:
        console.print(f"ended by {interrupted}; nothing is left running")
        code = 128 + interrupted.signal
    except Exception as trouble:  # noqa: BLE001 - the edge: whatever failed here is the harness, and not a verdict
        (directory / "harness.txt").write_text(traceback.format_exc())
        console.print(
            f"the harness has failed, seed {asked.seed}: {type(trouble).__name__}: {trouble}",
            markup=False,
            soft_wrap=True,
        )
    if code in (VIOLATED, HARNESS_FAILED):
        console.print(f"the table, the store, the records and the logs are in {directory}", soft_wrap=True)
    else:
        shutil.rmtree(directory, ignore_errors=True)
    return code


class _Performance:
    """One run of the harness: everything in one directory."""

    def __init__(self, asked: Asked, directory: Path, console: Console, interruption: Interruption) -> None:
        self._asked = asked
        self._directory = directory
        self._console = console
        self._interruption = interruption
        self._arms = Arms(directory / "arms")
        self._database = directory / "daemon" / "data" / "lakewarden.db"
        self._found: list[Violation] = []

    def play(self) -> FaultsReport:
        """Play all of it and return the report. Raises LakewardenError for trouble that is not the daemon's."""
        begun = time.monotonic()
        with Deaths(self._arms.witness) as deaths, Stage(self._directory) as stage:
            rounds = self._rounds(stage, deaths)
        if left := left_behind(self._directory):
            self._accuse(f"{len(left)} processes were left behind: {', '.join(left)}")
        runs = read_runs(self._database) if self._database.exists() else []
        with self._interruption.at_once():
            history = gather(table=stage.table, record=stage.record, runs=runs, witness=self._arms.witness)
            self._found += violations(history)
        record = read_record(stage.record)
        return report_of(
            rounds.struck,
            seed=self._asked.seed,
            seconds=time.monotonic() - begun,
            violations=[str(violation) for violation in self._found],
            writer=WriterTally(commits=len(record.acknowledged()), failures=len(record.failures())),
            runs=_endings(runs),
            resumed=rounds.resumed,
        )

    def _rounds(self, stage: Stage, deaths: Deaths) -> Rounds:
        """Play the rounds, end the writer, drain the daemon and end it."""
        zookeeper = stage.start_zookeeper()
        self._until(zookeeper.ready, stage, "ZooKeeper is not up")
        daemon = stage.start_daemon(zookeeper, services=POLICIES, settings=SETTINGS, variables=self._arms.variables)
        stage.dismiss(daemon.process)  # it may die
        arguments = ["--table-type", TableType.MOR, "--workload", Workload.DAYS, "--every", str(_WRITER_EVERY_SECONDS)]
        writer = stage.start_writer(daemon=daemon, arguments=[*arguments, "--seed", str(self._asked.seed)])
        ledger = SqliteLedger(self._database)
        self._until(lambda: bool(read_record(stage.record).acknowledged()), stage, "the writer has not begun")
        rounds = Rounds(
            stage=stage,
            daemon=daemon,
            arms=self._arms,
            ledger=ledger,
            deaths=deaths,
            interruption=self._interruption,
        )
        try:
            for strike in islice(deal(self._asked.seed), self._asked.rounds):
                struck = rounds.play(strike)
                self._console.print(line_of(struck, of=self._asked.rounds), markup=False, soft_wrap=True)
            self._end_writer(writer, stage)
            rounds.drain(at_most=_DRAINED_WITHIN_SECONDS)
        except NeverCameBackError as silence:
            self._accuse(str(silence))
            if writer.exit_code is None:
                self._end_writer(writer, stage)
        daemon.stop()
        if daemon.process.exit_code != 0:
            self._accuse(f"the daemon ended with {daemon.process.exit_code} when it was asked to end")
        return rounds

    def _end_writer(self, writer: Child, stage: Stage) -> None:
        """Ask the writer to end after its commit, and return when it has. Raises TemporaryError if it does not."""
        stage.dismiss(writer)
        writer.ask_to_end()
        self._until(lambda: writer.exit_code is not None, stage, "the writer does not end", _WRITER_ENDS_SECONDS)
        if writer.exit_code != 0:
            raise PermanentError(f"the writer ended with {writer.exit_code}: {writer.last_words()}")

    def _until(self, true: Callable[[], bool], stage: Stage, otherwise: str, at_most: float = _START_SECONDS) -> None:
        deadline = time.monotonic() + at_most
        while not true():
            stage.check()
            if time.monotonic() > deadline:
                raise TemporaryError(f"{otherwise} after {at_most:.0f} s")
            self._interruption.pause(0.2)

    def _accuse(self, what: str) -> None:
        self._found.append(Violation(rule=Rule.DAEMON, what=what))


def _endings(runs: Sequence[StoredRun]) -> dict[str, dict[str, int]]:
    counted = Counter((run.service, run.state) for run in runs)
    services = sorted({run.service for run in runs})
    return {
        service: {state: times for (of, state), times in sorted(counted.items()) if of == service}
        for service in services
    }
