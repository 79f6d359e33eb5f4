"""Nothing that a worker, its JVM or the daemon dies of leaves a process behind, or a run untold."""

from __future__ import annotations

import errno
import os
import queue
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

import lakewarden
from lakewarden.executors.contract import Asked, Assignment, Granted, Lost, PoolEvent, RoomChanged, Step
from lakewarden.executors.pool import WorkerPool
from lakewarden.executors.profile import SparkProfile
from lakewarden.planners.formats.fake import FakeTable
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import TableId

pytestmark = pytest.mark.spark


def eventually(what: Callable[[], bool]) -> None:
    """Return when `what` is true. Fails after ten seconds."""
    deadline = time.monotonic() + 10
    while not what():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.05)


RUN = RunId("run-1")


def _alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class Life:
    """A pool of one worker without any format's bundle, and what it tells."""

    def __init__(self, directory: Path, **profile: Any) -> None:
        light = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
        self.pool = WorkerPool(
            SparkProfile(formats=(), memory="512m", heartbeat="100ms", conf=light, **profile),
            directory=directory / "pool",
        )
        self._directory = directory
        self._plug = directory / "table" / "timeline" / "00000009.compaction.requested"
        self._events: queue.Queue[PoolEvent] = queue.Queue()
        self.pool.start(self._events.put)
        self.until(lambda e: isinstance(e, RoomChanged) and self.pool.room().slots > 0)
        [self.worker] = self.workers()
        [self.jvm] = [child.pid for child in psutil.Process(self.worker).children()]

    def workers(self) -> list[int]:
        return [worker.process.pid for worker in self.pool._workers]

    def until(self, fits: Callable[[PoolEvent], bool]) -> PoolEvent:
        while not fits(event := self._events.get(timeout=60)):
            pass
        return event

    def begin(self, *, stuck: bool = False) -> None:
        """Start a run and take it to its first question. A stuck one will never end the step after it."""
        table = FakeTable.create(self._directory / "table")
        table.write()
        if stuck:
            os.mkfifo(self._plug)  # read as a plan, but never written
        self.pool.submit(
            Assignment(
                run=RUN,
                epoch=1,
                table=TableId("t"),
                format="fake",
                location=str(table.folder),
                service=Service.COMPACTION,
            )
        )
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

    def lost(self) -> str:
        """Wait for the run's loss, check that nothing of its worker is left, and return the reason."""
        event = self.until(lambda e: isinstance(e, Lost))
        assert isinstance(event, Lost)
        assert event.run == RUN
        assert not _alive(self.worker)
        assert not _alive(self.jvm)
        return event.reason


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Callable[..., Life]]:
    """Start pools that are closed after the test."""
    lives: list[Life] = []

    def start(**profile: Any) -> Life:
        lives.append(Life(tmp_path, **profile))
        return lives[-1]

    yield start
    for life in lives:
        life.pool.close()


def test_the_jvm_of_a_killed_worker_is_gone_before_its_run_is_lost(live: Callable[..., Life]) -> None:
    """Even a JVM that hangs does not outlive its worker; and another worker takes the place."""
    life = live()
    life.begin()
    os.kill(life.jvm, signal.SIGSTOP)
    os.kill(life.worker, signal.SIGKILL)

    life.lost()
    life.until(lambda e: isinstance(e, RoomChanged) and life.pool.room().slots > 0)
    assert life.workers() != [life.worker]


def test_a_worker_whose_jvm_hangs_is_killed(live: Callable[..., Life]) -> None:
    """A JVM that has stopped answering is told from a busy one by time alone."""
    life = live(hung_after="2s")
    life.begin()
    os.kill(life.jvm, signal.SIGSTOP)

    assert "has not answered for 2 s" in life.lost()


def test_a_step_that_outlives_its_permit_ends_with_its_jvm(live: Callable[..., Life]) -> None:
    """A step that never ends is ended at its permit's expiry."""
    life = live()
    life.begin(stuck=True)
    life.pool.answer(RUN, Step.PLAN, Granted(expires=timedelta(seconds=1)))

    life.lost()


def test_a_cancelled_run_that_does_not_end_takes_its_jvm_along(live: Callable[..., Life]) -> None:
    """After its grace a cancelled run is lost, whatever holds it up."""
    life = live(cancel_grace="1s")
    life.begin(stuck=True)
    life.pool.answer(RUN, Step.PLAN, Granted())
    life.until_stuck()
    life.pool.cancel(RUN, "drain")

    assert "was cancelled" in life.lost()


def test_a_worker_that_has_done_its_share_is_replaced(live: Callable[..., Life]) -> None:
    """After `recycle_after` runs an idle worker makes room for a fresh one."""
    life = live(recycle_after=1)
    life.begin()
    life.pool.cancel(RUN, "enough")
    life.until(lambda e: isinstance(e, RoomChanged) and life.pool.room().slots > 0)

    assert life.workers() != [life.worker]
    assert not _alive(life.worker)
    assert not _alive(life.jvm)


_DAEMON = """
import sys, threading
from pathlib import Path
from lakewarden.executors.contract import RoomChanged
from lakewarden.executors.pool import WorkerPool
from lakewarden.executors.profile import SparkProfile

pool = WorkerPool(SparkProfile(formats=(), memory="512m", heartbeat="100ms"), directory=Path(sys.argv[1]))
pool.start(lambda event: print(event, flush=True))
threading.Event().wait()
"""


@pytest.mark.parametrize("jvm_hangs", [False, True])
def test_a_killed_daemon_leaves_no_process_behind(tmp_path: Path, jvm_hangs: bool) -> None:
    """Kill -9 of the daemon ends worker and JVM, also while the worker waits for a JVM that does not answer."""
    environment = {**os.environ, "PYTHONPATH": str(Path(lakewarden.__file__).parent.parent)}
    with subprocess.Popen(
        [sys.executable, "-c", _DAEMON, str(tmp_path / "pool")], stdout=subprocess.PIPE, env=environment, text=True
    ) as daemon:
        assert daemon.stdout is not None
        while "RoomChanged" not in daemon.stdout.readline():
            pass
        family = psutil.Process(daemon.pid).children(recursive=True)
        [jvm] = [process for process in family if "java" in process.name()]
        if jvm_hangs:
            jvm.suspend()
        daemon.kill()
    psutil.wait_procs(family, timeout=10)

    assert [process for process in family if _alive(process.pid)] == []
