"""A pool's workers without Spark: when they are killed, replaced, and started again."""

from __future__ import annotations

import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.executors.contract import Asked, Blame, CapacityChanged, Ended, Granted, Lost, PoolEvent
from lakewarden.executors.pool import session_pool
from lakewarden.executors.pool.process import keep_within
from lakewarden.executors.pool.session_pool import WorkerPool
from lakewarden.executors.profile import SparkProfile
from lakewarden.planners.model.clock import SystemClock
from lakewarden.planners.model.instant import RunId, Service, Step
from tests.support.pool import light_worker
from tests.support.pool.living_pool import RUN, Life, alive, lives
from tests.support.waiting import eventually


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Callable[..., Life]]:
    """Start pools of light workers. They are closed after the test."""
    with lives(tmp_path, command=light_worker.COMMAND) as start:
        yield start


def test_a_worker_that_hears_nothing_holds_no_other_up(live: Callable[..., Life]) -> None:
    """A frozen worker does not empty its channel. Once the channel is full, the worker is killed, and the daemon
    continues.
    """
    life = live()
    life.begin()
    os.kill(life.worker, signal.SIGSTOP)
    life.pool.cancel(RUN, "x" * 10**6)

    assert "does not read what it is sent" in life.lost().reason


def test_of_those_in_a_jvm_only_the_one_whose_permit_expired_is_to_blame(live: Callable[..., Life]) -> None:
    """This holds whether the daemon's supervisor or the worker itself ends the process."""
    life = live(slots=2)
    life.begin(stuck=True)
    neighbour = replace(life.assignment, run=RunId("neighbour"), service=Service.CLEAN)
    life.pool.submit(neighbour)
    life.until(lambda e: isinstance(e, Asked) and e.run == neighbour.run)
    life.pool.answer(RUN, Step.PLAN, Granted(expires=timedelta(seconds=0.5)))

    lost = [life.until(lambda e: isinstance(e, Lost)) for _ in range(2)]

    assert {event.run: event.blame for event in lost if isinstance(event, Lost)} == {
        RUN: Blame.ITS_OWN,
        neighbour.run: Blame.NOT_ITS,
    }
    assert all("the permit of run run-1 has expired" in event.reason for event in lost if isinstance(event, Lost))


def test_any_run_in_a_jvm_that_dies_may_be_to_blame(live: Callable[..., Life]) -> None:
    """For example, it runs out of memory. It is not known which run caused it."""
    life = live(slots=2)
    life.begin()
    life.pool.submit(replace(life.assignment, run=RunId("neighbour"), service=Service.CLEAN))
    os.kill(life.jvm, signal.SIGKILL)

    lost = [life.until(lambda e: isinstance(e, Lost)) for _ in range(2)]

    assert [event.blame for event in lost if isinstance(event, Lost)] == [Blame.UNKNOWN] * 2


def test_an_evicted_pool_is_empty_when_it_returns_and_comes_back(live: Callable[..., Life]) -> None:
    """The call may come from any thread, while other evictions run. Worker and JVM are gone on return, and others
    replace them.
    """
    life = live()
    life.begin()
    left: list[bool] = []

    def evict() -> None:
        life.pool.evict("the lease is lost")
        left.append(alive(life.worker) or alive(life.jvm))

    threads = [threading.Thread(target=evict) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)

    assert left == [False, False, False]
    lost = life.lost()
    assert lost.blame is Blame.NOT_ITS
    assert "the lease is lost" in lost.reason
    life.until(lambda e: isinstance(e, CapacityChanged) and life.pool.capacity().slots > 0)


def test_a_worker_that_wakes_after_the_moment_takes_no_step(live: Callable[..., Life]) -> None:
    """It was frozen with its JVM, got a permit, and continued too late. It ends, and the table is not changed."""
    life = live()
    life.begin()
    life.pool.extend(SystemClock().monotonic() + 1)
    os.killpg(life.worker, signal.SIGSTOP)
    life.pool.answer(RUN, Step.PLAN, Granted())
    time.sleep(1.1)
    os.killpg(life.worker, signal.SIGCONT)

    lost = life.lost()
    assert lost.blame is Blame.NOT_ITS
    assert not list((life.table.folder / "timeline").glob("*.compaction.requested"))


def test_a_worker_that_starts_after_the_moment_was_set_obeys_it_too(live: Callable[..., Life]) -> None:
    """The moment outlives the workers that received it. After it none is started, until there is a later moment."""
    life = live()
    until = SystemClock().monotonic() + 20
    life.pool.extend(until)
    life.pool.evict("anew")
    eventually(lambda: life.workers() not in ([], [life.worker]))
    [second] = life.workers()

    eventually(lambda: not alive(second))
    assert until < SystemClock().monotonic()
    time.sleep(1)
    assert life.workers() == []
    life.pool.extend(SystemClock().monotonic() + 60)
    life.until(lambda e: isinstance(e, CapacityChanged) and life.pool.capacity().slots > 0)


def test_a_worker_that_is_old_takes_no_new_run_and_is_replaced_when_it_is_idle(live: Callable[..., Life]) -> None:
    """Its current run continues to its end."""
    life = live(recycle_age="4s")
    life.begin()
    eventually(lambda: life.pool.capacity().slots == 0)
    assert alive(life.jvm)

    life.pool.cancel(RUN, "enough")
    life.until(lambda e: isinstance(e, Ended))
    life.until(lambda e: isinstance(e, CapacityChanged) and life.pool.capacity().slots > 0)
    assert life.workers() != [life.worker]
    assert not alive(life.jvm)


def test_a_worker_that_has_done_its_share_is_replaced(live: Callable[..., Life]) -> None:
    """After `recycle_after` runs an idle worker is replaced by a new one."""
    life = live(recycle_after=1)
    life.begin()
    life.pool.cancel(RUN, "enough")
    life.until(lambda e: isinstance(e, CapacityChanged) and life.pool.capacity().slots > 0)

    assert life.workers() != [life.worker]
    assert not alive(life.worker)
    assert not alive(life.jvm)


def test_a_log_is_bounded_while_its_worker_lives(live: Callable[..., Life], monkeypatch: pytest.MonkeyPatch) -> None:
    """Supervision checks its size. Worker and JVM continue to write into it."""
    monkeypatch.setattr(session_pool, "keep_within", lambda log: keep_within(log, 1000))
    life = live()
    with (life.directory / "pool" / "worker-1.log").open("ab") as held:
        held.write(b"x" * 2000)

    eventually(lambda: (life.directory / "pool" / "worker-1.log.1").exists() and len(life.log) < 1000)
    assert alive(life.worker)


def test_a_jvm_that_takes_names_of_files_for_something_else_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would find no file with a letter beyond ASCII in its path. The error names the missing setting and the
    remedy.
    """
    monkeypatch.setenv("LIGHT_WORKER_FILE_NAMES", "ANSI_X3.4-1968")
    told: queue.Queue[PoolEvent] = queue.Queue()
    profile = SparkProfile(formats=(), memory="512m", heartbeat="100ms")
    session_pool = WorkerPool(profile, directory=tmp_path / "pool", command=light_worker.COMMAND)
    session_pool.start(told.put)
    try:
        gone = told.get(timeout=60)
        assert isinstance(gone, CapacityChanged)
        assert "reads file names as ANSI_X3.4-1968" in gone.reason
        assert "install the locale C.UTF-8" in gone.reason
        assert session_pool.capacity().slots == 0
    finally:
        session_pool.close()
