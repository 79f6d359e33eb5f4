"""The fake pool, and the real one with light workers and with Spark. Each has a way to kill the worker of a run."""

from __future__ import annotations

import os
import queue
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import psutil
import pytest

from lakewarden.executors.contract import (
    Asked,
    Assignment,
    CapacityChanged,
    Ended,
    Granted,
    Lost,
    Pool,
    PoolEvent,
    Started,
)
from lakewarden.executors.pool.session_pool import WorkerPool
from lakewarden.executors.profile import SparkProfile
from lakewarden.executors.worker import java
from lakewarden.planners.model.clock import SystemClock
from lakewarden.planners.model.instant import RunId, Service, Step
from lakewarden.planners.model.table import TableId
from tests.support.doubles import WORKER
from tests.support.doubles.fake import FakeTable
from tests.support.doubles.fake_pool import FakePool
from tests.support.pool import light_worker

SLOTS = 2

_Event = TypeVar("_Event", Asked, Ended, Lost, CapacityChanged, Started)


class Harness:
    """A started pool, its events, and fake tables for its runs."""

    def __init__(self, pool: Pool, kill: Callable[[RunId], None], tables: Path) -> None:
        self.pool = pool
        self.kill = kill
        self._tables = tables
        self._events: queue.Queue[PoolEvent] = queue.Queue()
        self.told: list[PoolEvent] = []
        self._read: dict[RunId, int] = {}  # how far the events of each run were read
        pool.start(self._events.put)
        self.until_room()

    def table(self, *, writes: int = 3) -> FakeTable:
        table = FakeTable.create(self._tables / f"table-{len(list(self._tables.iterdir()))}")
        for _ in range(writes):
            table.write()
        return table

    def assignment(
        self, table: FakeTable, run: str, *, service: Service = Service.COMPACTION, instant: str | None = None
    ) -> Assignment:
        return Assignment(
            run=RunId(run),
            epoch=1,
            table=TableId("a table"),
            format="fake",
            location=str(table.folder),
            service=service,
            instant=instant,
        )

    def submit(self, table: FakeTable, run: str, *, instant: str | None = None) -> RunId:
        self.pool.submit(self.assignment(table, run, instant=instant))
        return RunId(run)

    def next(self, kind: type[_Event], run: RunId) -> _Event:
        """Return the run's next event of this kind, and skip its earlier events."""
        while True:
            for position in range(self._read.get(run, 0), len(self.told)):
                event = self.told[position]
                if isinstance(event, kind) and getattr(event, "run", None) == run:
                    self._read[run] = position + 1
                    return event
            self.told.append(self._events.get(timeout=60))

    def advance(self, run: RunId, *, to: Step) -> Asked:
        """Grant every step before `to`, and return the question for it."""
        while True:
            asked = self.next(Asked, run)
            if asked.step is to:
                return asked
            self.pool.answer(run, asked.step, Granted())

    def of(self, run: RunId) -> list[PoolEvent]:
        """Return the events of a run until now."""
        while not self._events.empty():
            self.told.append(self._events.get())
        return [event for event in self.told if getattr(event, "run", None) == run]

    def until_room(self) -> None:
        """Wait until every slot is free."""
        while self.pool.capacity().free < SLOTS:
            self.told.append(self._events.get(timeout=120))


def _kill_jvm(pool: WorkerPool) -> Callable[[RunId], None]:
    def kill(run: RunId) -> None:
        worker = pool._owner[run].process.pid
        for child in psutil.Process(worker).children(recursive=True):
            os.kill(child.pid, signal.SIGKILL)

    return kill


@pytest.fixture(scope="module", params=["fake", "light workers", pytest.param("workers", marks=pytest.mark.spark)])
def harness(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """Return each pool in turn, shared by the tests of a module."""
    tables = tmp_path_factory.mktemp("tables")
    if request.param == "fake":
        fake = FakePool(slots=SLOTS, clock=SystemClock())
        made = Harness(fake, fake.kill, tables)
    else:
        light = {"spark.driver.extraJavaOptions": java.LIGHT}
        profile = SparkProfile(
            slots=SLOTS, formats=(), memory="512m", heartbeat="100ms", cancel_grace="20s", conf=light
        )
        command = light_worker.COMMAND if request.param == "light workers" else WORKER
        workers = WorkerPool(profile, directory=tmp_path_factory.mktemp("pool"), command=command)
        made = Harness(workers, _kill_jvm(workers), tables)
    yield made
    made.pool.close()
