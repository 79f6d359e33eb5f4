"""What every trial has: a lock service, a table with a live writer, the witness, and a verdict at the end."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from faults.arms import Arms
from faults.checker import Rule, Violation, violations
from faults.evidence import gather
from faults.history import StoredRun
from faults.victims import left_of
from lakewarden.executors.demo.hudi_options import TableType, Workload
from lakewarden.executors.demo.record import Ending, read_record
from lakewarden.executors.worker import bundles
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.service.demo.daemon import Daemon
from lakewarden.service.demo.interruption import Interruption
from lakewarden.service.demo.process import Child
from lakewarden.service.demo.report import WriterTally
from lakewarden.service.demo.stage import Stage
from lakewarden.service.demo.zookeeper import ZooKeeper

POLICIES: Mapping[str, Any] = {
    "compaction": {"trigger": {"num_commits": 3}},
    "log_compaction": {"trigger": {"num_commits": 2}, "options": {"log_blocks_threshold": 2}},
    "clustering": {
        "trigger": {"num_commits": 3},
        "options": {"untouched_for": "25s", "sort_columns": ["order_id"]},
    },
    # A clean's plan bears no author: one that is killed before it could tell of its plan waits for the grace time.
    "clean": {"trigger": {"num_commits": 2}, "grace": "1m", "options": {"commits_retained": 6}},
    "archive": {"trigger": {"num_commits": 3}, "options": {"keep_min_commits": 10, "keep_max_commits": 13}},
}
"""Every service that runs by itself, as often as it can beside a writer."""

SPARK: Mapping[str, Any] = {"default": {"memory": "768m", "master": "local[2]", "hung_after": "15s"}}

_WRITER_EVERY_SECONDS = 2.5
_START_SECONDS = 240.0
_WRITER_ENDS_SECONDS = 180.0


class Scenery:
    """The surroundings of one trial, all in one directory. Its own trouble is a LakewardenError; what the daemons do
    wrong is an accusation.
    """

    def __init__(self, directory: Path, interruption: Interruption) -> None:
        self.directory = directory
        self.arms = Arms(directory / "arms")
        self.interruption = interruption
        self.found: list[Violation] = []

    def accuse(self, what: str) -> None:
        """Note that a daemon did not do what it must."""
        self.found.append(Violation(rule=Rule.DAEMON, what=what))

    def start_zookeeper(self, stage: Stage) -> ZooKeeper:
        """Start the lock service and return when it answers, with all jars at hand that anybody needs."""
        with self.interruption.at_once():
            bundles.fetch(("hudi",))
        zookeeper = stage.start_zookeeper()
        self.until(zookeeper.ready, stage, otherwise="ZooKeeper is not up")
        return zookeeper

    def start_writer(self, stage: Stage, daemon: Daemon, *, seed: int) -> Child:
        """Start the writer with the options that the daemon asks for, and return after its first commit."""
        arguments = ["--table-type", TableType.MOR, "--workload", Workload.DAYS, "--every", str(_WRITER_EVERY_SECONDS)]
        writer = stage.start_writer(daemon=daemon, arguments=[*arguments, "--seed", str(seed)])
        begun = "the writer has not begun"
        self.until(lambda: bool(read_record(stage.record).acknowledged()), stage, otherwise=begun)
        return writer

    def end_writer(self, stage: Stage, writer: Child) -> None:
        """Ask the writer to end after its commit, and return when it has."""
        if writer.exit_code is None:
            stage.dismiss(writer)
            writer.ask_to_end()
            ended = "the writer has not ended"
            self.until(lambda: writer.exit_code is not None, stage, otherwise=ended, at_most=_WRITER_ENDS_SECONDS)
        if writer.exit_code != 0:
            raise PermanentError(f"the writer ended with {writer.exit_code}: {writer.last_words()}")

    def end_daemon(self, daemon: Daemon) -> None:
        """Ask a daemon to end, and accuse it if it does not end well."""
        daemon.stop()
        if daemon.process.exit_code != 0:
            self.accuse(f"the daemon ended with {daemon.process.exit_code} when it was asked to end")

    def until(self, true: Callable[[], bool], stage: Stage, *, otherwise: str, at_most: float = _START_SECONDS) -> None:
        """Wait until something is true. Raises TemporaryError if it is not in time."""
        deadline = time.monotonic() + at_most
        while not true():
            stage.check()
            if time.monotonic() > deadline:
                raise TemporaryError(f"{otherwise} after {at_most:.0f} s")
            self.interruption.pause(0.2)

    def judge(self, stage: Stage, runs: Sequence[StoredRun]) -> list[str]:
        """Return what is wrong when everything has ended."""
        if left := left_of(self.directory):
            self.accuse(f"{len(left)} processes were left behind: {', '.join(str(process) for process in left)}")
        with self.interruption.at_once():
            history = gather(table=stage.table, record=stage.record, runs=runs, witness=self.arms.witness)
            return [str(violation) for violation in (*self.found, *violations(history))]


def writer_tally(stage: Stage) -> WriterTally:
    """Return what became of the writer's commits."""
    record = read_record(stage.record)
    return WriterTally(commits=len(record.acknowledged()), failures=len(record.failures()))


def writer_has_failed(stage: Stage) -> bool:
    """Whether a commit of the writer came back with an error. It leaves a write in flight, for which everything waits
    from then on: nothing that is struck afterwards tells anything new.
    """
    return any(batch.ending is Ending.FAILED for batch in read_record(stage.record).batches)


def endings(runs: Sequence[StoredRun]) -> dict[str, dict[str, int]]:
    """Return how often the runs of each service ended in each state."""
    counted = Counter((run.service, run.state) for run in runs)
    return {
        service: {state: times for (of, state), times in sorted(counted.items()) if of == service}
        for service in sorted({run.service for run in runs})
    }
