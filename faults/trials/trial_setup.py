"""The parts of every trial: a table with live writers, the witness file, and a verdict at the end."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from faults.checking.checker import Rule, Violation, violations
from faults.checking.history import StoredRun
from faults.formats.trial import FormatTrial
from faults.injection.fault_injection import FaultInjection
from faults.injection.victims import left_of
from lakewarden.demo.daemon import Child, DaemonProcess
from lakewarden.demo.environment import Environment
from lakewarden.demo.interruption import Interruption
from lakewarden.demo.report import WriterTally
from lakewarden.demo.writers.orders import Ending, Record, merged, read_record
from lakewarden.planners.model.errors import PermanentError, TemporaryError

SPARK: Mapping[str, Any] = {"default": {"memory": "768m", "master": "local[2]", "hung_after": "15s"}}

_START_SECONDS = 240.0
_WRITER_ENDS_SECONDS = 180.0


class TrialSetup:
    """The set-up of one trial, all in one directory. An error of the set-up is a LakewardenError. An error of the
    daemons is a violation.
    """

    def __init__(self, directory: Path, interruption: Interruption, format_trial: FormatTrial) -> None:
        self.directory = directory
        self.format_trial = format_trial
        self.injection = FaultInjection(directory / "arms")
        self.interruption = interruption
        self.found: list[Violation] = []
        self.records: dict[str, Path] = {}
        """The writers' records, by their names."""

    def accuse(self, what: str) -> None:
        """Record that a daemon did not do what it must."""
        self.found.append(Violation(rule=Rule.DAEMON, what=what))

    def table_entry(self, environment: Environment) -> Mapping[str, Any]:
        """Download all jars that the trial needs, and start the processes that the table needs. Return the table's
        entry in the configuration, without its services.
        """
        with self.interruption.at_once():
            self.format_trial.fetch()
        return self.format_trial.table_entry(
            environment, lambda true, otherwise: self.until(true, environment, otherwise=otherwise)
        )

    def start_writers(self, environment: Environment, daemon: DaemonProcess, *, seed: int, writers: int) -> list[Child]:
        """Start the writers. Return after the first commit of the last writer."""
        started = []
        for writer in self.format_trial.start_writers(environment, daemon, seed=seed, writers=writers):
            self.records[writer.name] = writer.record
            started.append(writer.process)
            begun = f"the {writer.process.name} has not begun"
            self.until(partial(_has_committed, writer.record), environment, otherwise=begun)
        return started

    def end_writers(self, environment: Environment, writers: Sequence[Child]) -> None:
        """Ask the writers to end after their commits. Return when they have ended."""
        for writer in writers:
            if writer.exit_code is None:
                environment.expect_end(writer)
                writer.ask_to_end()
        for writer in writers:
            ended = f"the {writer.name} has not ended"
            self.until(partial(_has_ended, writer), environment, otherwise=ended, at_most=_WRITER_ENDS_SECONDS)
            if writer.exit_code != 0:
                raise PermanentError(f"the {writer.name} ended with {writer.exit_code}: {writer.last_words()}")

    def writers_tally(self) -> WriterTally:
        """Return how the writers' commits ended."""
        return WriterTally.of(self._written())

    def writer_has_failed(self) -> bool:
        """Whether a commit of a writer failed that counts. A table may keep a write in flight of it, and some services
        wait for it. Faults after that show little that is new.
        """
        failed = (batch for batch in self._written().batches if batch.ending is Ending.FAILED)
        return any(map(self.format_trial.counts_against_us, failed))

    def _written(self) -> Record:
        return merged(map(read_record, self.records.values()))

    def end_daemon(self, daemon: DaemonProcess) -> None:
        """Ask a daemon to end, and record a violation if it does not end well."""
        daemon.stop()
        if daemon.process.exit_code != 0:
            self.accuse(f"the daemon ended with {daemon.process.exit_code} when it was asked to end")

    def until(
        self, true: Callable[[], bool], environment: Environment, *, otherwise: str, at_most: float = _START_SECONDS
    ) -> None:
        """Wait until a condition is true. Raises TemporaryError if it is not true in time."""
        deadline = time.monotonic() + at_most
        while not true():
            environment.check()
            if time.monotonic() > deadline:
                raise TemporaryError(f"{otherwise} after {at_most:.0f} s")
            self.interruption.pause(0.2)

    def judge(self, environment: Environment, runs: Sequence[StoredRun]) -> list[str]:
        """Return what is wrong after everything has ended."""
        if left := left_of(self.directory):
            self.accuse(f"{len(left)} processes were left behind: {', '.join(str(process) for process in left)}")
        with self.interruption.at_once():
            history = self.format_trial.gather(
                environment, records=self.records, runs=runs, witness=self.injection.witness
            )
            return [str(violation) for violation in (*self.found, *violations(history))]


def _has_committed(record: Path) -> bool:
    return bool(read_record(record).acknowledged())


def _has_ended(child: Child) -> bool:
    return child.exit_code is not None


def endings(runs: Sequence[StoredRun]) -> dict[str, dict[str, int]]:
    """Return how often the runs of each service ended in each state."""
    counted = Counter((run.service, run.state) for run in runs)
    return {
        service: {state: times for (of, state), times in sorted(counted.items()) if of == service}
        for service in sorted({run.service for run in runs})
    }
