"""What every trial has: a lock service, a table with live writers, the witness, and a verdict at the end."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from faults.arms import Arms
from faults.checker import Rule, Violation, violations
from faults.evidence import gather
from faults.history import StoredRun
from faults.victims import left_of
from lakewarden.demo.daemon import Daemon
from lakewarden.demo.environment import Environment
from lakewarden.demo.interruption import Interruption
from lakewarden.demo.process import Child
from lakewarden.demo.report import WriterTally
from lakewarden.demo.writers.record import Ending, Record, merged, read_record
from lakewarden.demo.zookeeper import ZooKeeper
from lakewarden.executors.worker import bundles
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from live.hudi.several.casting import WRITER, Part, bring_releases, cast, written_by

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
"""Every service that runs by itself, as often as it can beside writers."""

SPARK: Mapping[str, Any] = {"default": {"memory": "768m", "master": "local[2]", "hung_after": "15s"}}

_TABLE_VERSION = 9
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
        self.records: dict[str, Path] = {}
        """The writers' records, by their signatures."""

    def accuse(self, what: str) -> None:
        """Note that a daemon did not do what it must."""
        self.found.append(Violation(rule=Rule.DAEMON, what=what))

    def start_zookeeper(self, stage: Environment) -> ZooKeeper:
        """Start the lock service and return when it answers, with all jars at hand that anybody needs."""
        with self.interruption.at_once():
            bundles.fetch(("hudi",))
            bring_releases(_TABLE_VERSION)
        zookeeper = stage.start_zookeeper()
        self.until(zookeeper.ready, stage, otherwise="ZooKeeper is not up")
        return zookeeper

    def start_writers(self, stage: Environment, daemon: Daemon, *, seed: int, writers: int) -> list[Child]:
        """Start writers with the options that the daemon asks for, each with days of its own, and return after the
        first commit of the last one.
        """
        stage.options.write_text(json.dumps(daemon.writer_options()), encoding="utf-8")
        return [
            self._start_writer(stage, part, seed=seed)
            for part in cast(writers, table_version=_TABLE_VERSION, conflicts=False)
        ]

    def _start_writer(self, stage: Environment, part: Part, *, seed: int) -> Child:
        arguments = written_by(part, table_version=_TABLE_VERSION, every=_WRITER_EVERY_SECONDS, stage=stage)
        writer = stage.start_another_writer(f"writer-{part.shop}", WRITER, *arguments, "--seed", str(seed))
        record = self.records[part.shop] = stage.records[-1]
        begun = f"the {writer.name} has not begun"
        self.until(lambda: bool(read_record(record).acknowledged()), stage, otherwise=begun)
        return writer

    def end_writers(self, stage: Environment, writers: Sequence[Child]) -> None:
        """Ask the writers to end after their commits, and return when they have."""
        for writer in writers:
            if writer.exit_code is None:
                stage.dismiss(writer)
                writer.ask_to_end()
        for writer in writers:
            ended = f"the {writer.name} has not ended"
            self.until(partial(_has_ended, writer), stage, otherwise=ended, at_most=_WRITER_ENDS_SECONDS)
            if writer.exit_code != 0:
                raise PermanentError(f"the {writer.name} ended with {writer.exit_code}: {writer.last_words()}")

    def writers_tally(self) -> WriterTally:
        """Return what became of the writers' commits."""
        return WriterTally.of(self._written())

    def writer_has_failed(self) -> bool:
        """Whether a commit of a writer came back with an error. It leaves a write in flight, for which some services
        wait: nothing that is struck afterwards tells much that is new.
        """
        return any(batch.ending is Ending.FAILED for batch in self._written().batches)

    def _written(self) -> Record:
        return merged(map(read_record, self.records.values()))

    def end_daemon(self, daemon: Daemon) -> None:
        """Ask a daemon to end, and accuse it if it does not end well."""
        daemon.stop()
        if daemon.process.exit_code != 0:
            self.accuse(f"the daemon ended with {daemon.process.exit_code} when it was asked to end")

    def until(
        self, true: Callable[[], bool], stage: Environment, *, otherwise: str, at_most: float = _START_SECONDS
    ) -> None:
        """Wait until something is true. Raises TemporaryError if it is not in time."""
        deadline = time.monotonic() + at_most
        while not true():
            stage.check()
            if time.monotonic() > deadline:
                raise TemporaryError(f"{otherwise} after {at_most:.0f} s")
            self.interruption.pause(0.2)

    def judge(self, stage: Environment, runs: Sequence[StoredRun]) -> list[str]:
        """Return what is wrong when everything has ended."""
        if left := left_of(self.directory):
            self.accuse(f"{len(left)} processes were left behind: {', '.join(str(process) for process in left)}")
        with self.interruption.at_once():
            history = gather(table=stage.table, records=self.records, runs=runs, witness=self.arms.witness)
            return [str(violation) for violation in (*self.found, *violations(history))]


def _has_ended(child: Child) -> bool:
    return child.exit_code is not None


def endings(runs: Sequence[StoredRun]) -> dict[str, dict[str, int]]:
    """Return how often the runs of each service ended in each state."""
    counted = Counter((run.service, run.state) for run in runs)
    return {
        service: {state: times for (of, state), times in sorted(counted.items()) if of == service}
        for service in sorted({run.service for run in runs})
    }
