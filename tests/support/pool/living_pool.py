"""A pool of one worker without any format's bundle, in this process or in one that can be killed."""

from __future__ import annotations

import contextlib
import errno
import os
import queue
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil

import lakewarden
from lakewarden.executors.contract import Asked, Assignment, CapacityChanged, Lost, PoolEvent, Started
from lakewarden.executors.pool.session_pool import WorkerPool
from lakewarden.executors.profile import SparkProfile
from lakewarden.executors.worker import java
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import TableId
from tests.support.doubles import WORKER
from tests.support.doubles.fake import FakeTable
from tests.support.waiting import HANGS, eventually

RUN = RunId("run-1")


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class Life:
    """A pool of one worker without any format's bundle, and what it tells."""

    def __init__(self, directory: Path, command: Sequence[str] = WORKER, **profile: Any) -> None:
        light = {"spark.driver.extraJavaOptions": java.LIGHT}
        self.pool = WorkerPool(
            SparkProfile(formats=(), memory="512m", heartbeat="100ms", conf=light, **profile),
            directory=directory / "pool",
            command=command,
        )
        self.directory = directory
        self._plug = directory / "table" / "timeline" / "00000009.compaction.requested"
        self._events: queue.Queue[PoolEvent] = queue.Queue()
        self.pool.start(self._events.put)
        self.until(lambda e: isinstance(e, CapacityChanged) and self.pool.capacity().slots > 0)
        [self.worker] = self.workers()
        [self.jvm] = [child.pid for child in psutil.Process(self.worker).children()]

    @property
    def log(self) -> str:
        return (self.directory / "pool" / "worker-1.log").read_text()

    def workers(self) -> list[int]:
        return [worker.process.pid for worker in self.pool._workers]

    def until(self, fits: Callable[[PoolEvent], bool]) -> PoolEvent:
        while not fits(event := self._events.get(timeout=HANGS)):
            pass
        return event

    def begin(self, *, service: Service = Service.COMPACTION, stuck: bool = False) -> None:
        """Start a run and take it to its first question. A stuck one will never end the step after it."""
        self.table = table = FakeTable.create(self.directory / "table")
        table.write()
        if stuck:
            os.mkfifo(self._plug)  # read as a plan, but never written
        self.assignment = Assignment(
            run=RUN,
            epoch=1,
            table=TableId("t"),
            format="fake",
            location=str(table.folder),
            service=service,
        )
        self.pool.submit(self.assignment)
        started = self.until(lambda e: isinstance(e, Started))
        assert isinstance(started, Started)
        self.executor = started.executor
        self.until(lambda e: isinstance(e, Asked))

    def until_stuck(self) -> None:
        """Return when a step waits for what is never written."""

        def is_read() -> bool:
            try:
                os.open(self._plug, os.O_WRONLY | os.O_NONBLOCK)  # stays open: closing would end the reader's wait
            except OSError as error:
                assert error.errno == errno.ENXIO  # noqa: PT017 - nobody reads it yet
                return False
            return True

        eventually(is_read)

    def lost(self) -> Lost:
        """Wait for the run's loss, check that nothing of its worker is left, and return what was told."""
        event = self.until(lambda e: isinstance(e, Lost))
        assert isinstance(event, Lost)
        assert event.run == RUN
        assert not alive(self.worker)
        assert not alive(self.jvm)
        return event


@contextlib.contextmanager
def lives(directory: Path, *, command: Sequence[str] = WORKER) -> Iterator[Callable[..., Life]]:
    """Start pools, with what a profile takes, until the bracket closes and ends them all. `command` starts a worker."""
    started: list[Life] = []

    def start(*, command: Sequence[str] = command, **profile: Any) -> Life:
        started.append(Life(directory, command, **profile))
        return started[-1]

    yield start
    for life in started:
        life.pool.close()


_DAEMON = """
import sys, threading
from pathlib import Path
from lakewarden.executors.pool.session_pool import WorkerPool
from lakewarden.executors.profile import SparkProfile
from lakewarden.planners.model.clock import SystemClock

pool = WorkerPool(SparkProfile(formats=(), memory="512m", heartbeat="100ms"), directory=Path(sys.argv[1]))
pool.start(lambda event: print("ready", flush=True))
for seconds in sys.stdin:
    pool.extend(SystemClock().monotonic() + float(seconds))
"""


class Daemon:
    """A process that holds a pool, as the daemon does: it can be killed and frozen."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdout is not None
        process.stdout.readline()
        [worker] = psutil.Process(process.pid).children()
        [jvm] = worker.children()
        self.worker, self.jvm = worker.pid, jvm.pid

    def extend(self, seconds: float) -> None:
        """Let the worker and its JVM live for so long from now, and hear it."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        time.sleep(0.5)  # a heartbeat is 0.1 s


@contextlib.contextmanager
def daemon(directory: Path) -> Iterator[Daemon]:
    """Start a process that holds a pool in `directory`, whose worker is ready, and kill whatever is left in the end."""
    environment = {**os.environ, "PYTHONPATH": str(Path(lakewarden.__file__).parent.parent)}
    with subprocess.Popen(
        [sys.executable, "-c", _DAEMON, str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
    ) as process:
        held = Daemon(process)
        family = [psutil.Process(pid) for pid in (held.worker, held.jvm, process.pid)]
        try:
            yield held
        finally:
            for each in family:
                with contextlib.suppress(psutil.Error):
                    each.kill()


def seconds_until_gone(pids: Sequence[int]) -> float:
    """Return after how long none of these processes runs any more. Fails after ten seconds."""
    began = time.monotonic()
    eventually(lambda: not any(alive(pid) for pid in pids))
    return time.monotonic() - began
