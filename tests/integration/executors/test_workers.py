"""No death of a worker, its JVM or the daemon leaves a process behind, or a run without an end."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.executors.contract import Asked, Blame, CapacityChanged, Granted
from lakewarden.executors.identity import ProcessIdentity
from lakewarden.executors.pool.session_pool import WorkerPool
from lakewarden.executors.profile import SparkProfile
from lakewarden.planners.model.clock import SystemClock
from lakewarden.planners.model.instant import Step
from tests.support.pool import failing_worker
from tests.support.pool.living_pool import RUN, Life, alive, daemon, lives, seconds_until_gone

pytestmark = pytest.mark.spark

MORE = pytest.mark.faults
"""Light workers show this in the default run, too (`test_pool.py`): `./dev test -m faults`."""


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Callable[..., Life]]:
    """Start pools. They are closed after the test."""
    with lives(tmp_path) as start:
        yield start


@pytest.mark.core
def test_the_jvm_of_a_killed_worker_is_gone_before_its_run_is_lost(live: Callable[..., Life]) -> None:
    """Even a JVM that hangs does not outlive its worker, and another worker replaces it. The run has reported its JVM,
    so its executor is proved dead. The JVM is in the worker's process group, which one signal kills.
    """
    life = live()
    life.begin()
    assert life.executor is not None
    who = ProcessIdentity.from_text(life.executor)
    assert who.pid == life.jvm
    assert os.getpgid(life.jvm) == os.getsid(life.jvm) == life.worker
    assert not who.is_proved_dead()
    os.kill(life.jvm, signal.SIGSTOP)
    os.kill(life.worker, signal.SIGKILL)

    life.lost()
    assert who.is_proved_dead()
    life.until(lambda e: isinstance(e, CapacityChanged) and life.pool.capacity().slots > 0)
    assert life.workers() != [life.worker]


def test_a_worker_whose_jvm_hangs_is_killed(live: Callable[..., Life]) -> None:
    """Only time distinguishes a JVM that hangs from a busy one."""
    life = live(hung_after="2s")
    life.begin()
    os.kill(life.jvm, signal.SIGSTOP)

    assert "has not answered for 2 s" in life.lost().reason


@MORE
def test_a_step_that_outlives_its_permit_ends_with_its_jvm(live: Callable[..., Life]) -> None:
    """If a step never ends, it is ended when its permit expires."""
    life = live()
    life.begin(stuck=True)
    life.pool.answer(RUN, Step.PLAN, Granted(expires=timedelta(seconds=1)))

    life.lost()


@MORE
def test_a_step_whose_spark_tasks_end_outlives_its_permit_until_they_do_not(live: Callable[..., Life]) -> None:
    """A step with progress is not hung, however long it takes. The same permit ends a step without progress."""
    life = live(command=failing_worker.COMMAND, master="local[2]")
    life.begin(service=failing_worker.WORKS)
    life.pool.answer(RUN, Step.PLAN, Granted())
    life.until(lambda e: isinstance(e, Asked) and e.step is Step.EXECUTE)
    permit, began = Granted(expires=timedelta(seconds=3)), time.monotonic()
    life.pool.answer(RUN, Step.EXECUTE, permit)
    life.until(lambda e: isinstance(e, Asked) and e.step is Step.COMMIT)
    assert time.monotonic() - began > 5
    assert life.pool.advanced_at(RUN) is not None

    life.pool.answer(RUN, Step.COMMIT, permit)

    lost = life.lost()
    assert lost.blame is Blame.ITS_OWN
    assert "the permit of run run-1 has expired" in lost.reason


@MORE
def test_a_cancelled_run_that_does_not_end_takes_its_jvm_along(live: Callable[..., Life]) -> None:
    """After its grace a cancelled run is lost, whatever holds it up."""
    life = live(cancel_grace="1s")
    life.begin(stuck=True)
    life.pool.answer(RUN, Step.PLAN, Granted())
    life.until_stuck()
    life.pool.cancel(RUN, "drain")

    assert "was cancelled" in life.lost().reason


@MORE
def test_a_call_that_nothing_interrupts_is_ended_with_its_jvm(live: Callable[..., Life]) -> None:
    """A cancel reaches only Spark's jobs, not what Java does on the driver. After its grace, the JVM is killed."""
    life = live(command=failing_worker.COMMAND, cancel_grace="2s")
    life.begin(service=failing_worker.SLEEPS)
    life.pool.answer(RUN, Step.PLAN, Granted())
    time.sleep(0.5)
    life.pool.cancel(RUN, "the deadline")

    lost = life.lost()
    assert "was cancelled" in lost.reason
    assert lost.blame is Blame.ITS_OWN


def test_a_jvm_without_memory_is_gone_at_once(live: Callable[..., Life]) -> None:
    """It does not stay in an unknown state. Its only run is reported with that cause."""
    life = live(command=failing_worker.COMMAND)
    life.begin(service=failing_worker.EXHAUSTS_THE_HEAP)
    life.pool.answer(RUN, Step.PLAN, Granted())

    lost = life.lost()
    assert "OutOfMemoryError" in life.log
    assert lost.blame is Blame.ITS_OWN


@pytest.mark.parametrize(
    "frozen",
    ["the daemon", pytest.param("daemon and worker", marks=MORE), pytest.param("daemon and JVM", marks=MORE)],
)
def test_a_frozen_daemon_has_no_living_jvm_after_the_moment(tmp_path: Path, frozen: str) -> None:
    """This holds whichever of the three is frozen. The JVM is dead by the last moment that was set, and alive until
    then.
    """
    with daemon(tmp_path / "pool") as held:
        until = SystemClock().monotonic() + 3
        held.extend(3)
        os.kill(held.process.pid, signal.SIGSTOP)
        if "worker" in frozen:
            os.kill(held.worker, signal.SIGSTOP)
        if "JVM" in frozen:
            os.kill(held.jvm, signal.SIGSTOP)
        assert alive(held.jvm)

        seconds_until_gone([held.jvm])
        assert until - 0.5 < SystemClock().monotonic()
        os.kill(held.worker, signal.SIGCONT) if "worker" in frozen else None
        seconds_until_gone([held.worker])


@pytest.mark.parametrize("jvm_hangs", [False, pytest.param(True, marks=MORE)])
def test_a_killed_daemon_leaves_no_process_behind(tmp_path: Path, jvm_hangs: bool) -> None:
    """Kill -9 of the daemon ends worker and JVM, even if the JVM does not answer."""
    with daemon(tmp_path / "pool") as held:
        if jvm_hangs:
            os.kill(held.jvm, signal.SIGSTOP)
        held.process.kill()
        seconds_until_gone([held.worker, held.jvm])


def test_what_a_killed_daemon_left_stopped_is_gone_when_the_next_one_starts(tmp_path: Path) -> None:
    """If it were continued later, it would go on in the middle of a step."""
    with daemon(tmp_path / "pool") as held:
        os.killpg(held.worker, signal.SIGSTOP)
        held.process.kill()
        held.process.wait()
        time.sleep(0.5)
        assert alive(held.worker)
        assert alive(held.jvm)

        heir = WorkerPool(SparkProfile(formats=()), directory=tmp_path / "pool")
        heir.start(lambda event: None)
        assert not alive(held.worker)
        assert not alive(held.jvm)
        heir.close()
