"""Writers that die in the midst of a commit, one after another, so that there is something to roll back."""

from __future__ import annotations

import os
import signal
import time
from datetime import timedelta
from pathlib import Path

from lakewarden.demo.environment import Environment
from lakewarden.demo.formats.hudi.options import TableType
from lakewarden.demo.process import Child
from lakewarden.demo.snapshot import DemoState
from lakewarden.planners.model.instant import Service
from live.hudi.policies import DEAD_AFTER
from live.tally import tallies

_SILENCE = DEAD_AFTER + timedelta(minutes=2)


class Casualties:
    """Sends the next one as soon as the last one is dead and rolled back, `wanted` in all.

    Nobody may call a writer dead before its heartbeat has been silent for many minutes. The suite has not got them,
    so it makes the last heartbeat of a dead one older: old enough for a rollback, and not yet for a clean, which would
    roll it back on the way.
    """

    def __init__(self, stage: Environment, kind: TableType, *, wanted: int) -> None:
        self._stage = stage
        self._kind = kind
        self._wanted = wanted
        self._sent: list[Child] = []
        self._buried = 0

    def look(self, scene: DemoState) -> None:
        """Age the heartbeat of one that has died, and send the next one if it is time for it."""
        if len(self._sent) > self._buried:
            if self._sent[-1].exit_code is None:
                return
            age_heartbeats(self._stage.table, partition=_partition(len(self._sent)), age=_SILENCE)
            self._buried += 1
        done = tallies(scene.runs).get(Service.ROLLBACK)
        rolled_back = 0 if done is None else done.succeeded
        if self._buried < self._wanted and rolled_back >= self._buried:
            number = self._buried + 1
            self._sent.append(self._start(number))

    def survivors(self) -> list[str]:
        """Return a sentence for each that ended in another way than it should."""
        ended = ((child.name, child.exit_code) for child in self._sent)
        return [f"{name} ended with {code}" for name, code in ended if code not in (None, -signal.SIGKILL)]

    def _start(self, number: int) -> Child:
        """Start one, with the options of the writer."""
        child = self._stage.start(
            f"casualty-{number}",
            "lakewarden.demo.formats.hudi.casualty",
            *self._stage.piece.writer_arguments(self._stage.directory),
            *("--options", str(self._stage.options), "--table-type", self._kind, "--partition", _partition(number)),
        )
        self._stage.dismiss(child)
        return child


def age_heartbeats(table: Path, *, partition: str, age: timedelta) -> None:
    """Make the heartbeats of the writes that left data files in a partition older than they are.

    Data files are called `<fileId>_<writeToken>_<instant>.parquet`.
    """
    then = time.time() - age.total_seconds()
    for file in (table / partition).glob("*.parquet"):
        heartbeat = table / ".hoodie" / ".heartbeat" / file.stem.rpartition("_")[2]
        if heartbeat.exists():
            os.utime(heartbeat, (then, then))


def _partition(number: int) -> str:
    return f"lost-{number}"
