"""Writers that are killed in the middle of a commit, one after another. Each leaves a write to roll back."""

from __future__ import annotations

import os
import signal
import time
from datetime import timedelta
from pathlib import Path

from lakewarden.demo.daemon import Child
from lakewarden.demo.environment import Environment
from lakewarden.demo.formats.hudi.options import TableType
from lakewarden.demo.snapshot import DemoState
from lakewarden.planners.model.instant import Service
from live.hudi.policies import DEAD_AFTER
from live.tally import tallies

_SILENCE = DEAD_AFTER + timedelta(minutes=2)


class KilledWriters:
    """Starts the next writer as soon as the last one is dead and its write is rolled back, `wanted` in all.

    A writer counts as dead only after its heartbeat has been silent for many minutes. The suite does not have those
    minutes. It makes the last heartbeat of a dead writer older. The heartbeat is then old enough for a rollback. It is
    not old enough for a clean, which would otherwise roll the write back itself.
    """

    def __init__(self, environment: Environment, kind: TableType, *, wanted: int) -> None:
        self._environment = environment
        self._kind = kind
        self._wanted = wanted
        self._started: list[Child] = []
        self._ended = 0

    def look(self, state: DemoState) -> None:
        """Age the heartbeat of a writer that has died, and start the next writer if it is due."""
        if len(self._started) > self._ended:
            if self._started[-1].exit_code is None:
                return
            age_heartbeats(self._environment.table, partition=_partition(len(self._started)), age=_SILENCE)
            self._ended += 1
        done = tallies(state.runs).get(Service.ROLLBACK)
        rolled_back = 0 if done is None else done.succeeded
        if self._ended < self._wanted and rolled_back >= self._ended:
            number = self._ended + 1
            self._started.append(self._start(number))

    def survivors(self) -> list[str]:
        """Return a sentence for each writer that ended in another way than it should."""
        ended = ((child.name, child.exit_code) for child in self._started)
        return [f"{name} ended with {code}" for name, code in ended if code not in (None, -signal.SIGKILL)]

    def _start(self, number: int) -> Child:
        """Start one writer, with the options of the live writer."""
        child = self._environment.start(
            f"killed-writer-{number}",
            "lakewarden.demo.formats.hudi.killed_writer",
            *self._environment.format_demo.writer_arguments(self._environment.directory),
            *(
                "--options",
                str(self._environment.options),
                "--table-type",
                self._kind,
                "--partition",
                _partition(number),
            ),
        )
        self._environment.expect_end(child)
        return child


def age_heartbeats(table: Path, *, partition: str, age: timedelta) -> None:
    """Make the heartbeats of some writes older than they are: of the writes with data files in this partition.

    Data files are called `<fileId>_<writeToken>_<instant>.parquet`.
    """
    then = time.time() - age.total_seconds()
    for file in (table / partition).glob("*.parquet"):
        heartbeat = table / ".hoodie" / ".heartbeat" / file.stem.rpartition("_")[2]
        if heartbeat.exists():
            os.utime(heartbeat, (then, then))


def _partition(number: int) -> str:
    return f"lost-{number}"
