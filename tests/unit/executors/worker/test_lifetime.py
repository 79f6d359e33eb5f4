"""A worker lives until the moment that its daemon has set. After that moment nothing revives it."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from threading import Thread
from typing import Any, cast

import pytest

from lakewarden.executors.contract import Asked, Assignment, Ended, Granted, Outcome, Succeeded, Yielded
from lakewarden.executors.protocol import FromWorker, PermitAnswer
from lakewarden.executors.worker.main import _look, gone_from
from lakewarden.executors.worker.runs import Lifetime, WorkerRun
from lakewarden.executors.worker.session import Session
from lakewarden.planners.model.clock import ManualClock, SystemClock
from lakewarden.planners.model.instant import RunId, Service, Step
from lakewarden.planners.model.table import TableId
from lakewarden.planners.storage import LocalStorage
from tests.support.doubles.fake import FakeTable
from tests.support.doubles.fake.programs import FakeCompaction
from tests.support.pool.light_worker import NoStages

RUN = RunId("run-1")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def lifetime(clock: ManualClock) -> Lifetime:
    bound = Lifetime(clock)
    bound.bind()
    return bound


def _pass(clock: ManualClock, seconds: float) -> None:
    clock.advance(timedelta(seconds=seconds))


def test_a_worker_that_starts_slowly_is_judged_by_what_it_heard_last(clock: ManualClock) -> None:
    """On a busy machine a start may take longer than the distance of two moments. Those that it receives meanwhile
    count. If its daemon was silent for too long, it is over as soon as its session is up.
    """
    starting, given_up = Lifetime(clock), Lifetime(clock)
    assert given_up.extend(20)
    _pass(clock, 25)
    assert starting.extend(20)
    assert starting.extend(40)
    for lifetime in (starting, given_up):
        lifetime.bind()
    assert (starting.is_over, given_up.is_over) == (False, True)
    _pass(clock, 15)
    assert starting.is_over


def test_it_ends_at_the_latest_moment_and_nothing_revives_it(lifetime: Lifetime, clock: ManualClock) -> None:
    """Not at the one that arrived last, and without any never. Once it is over, another worker may have begun. Only the
    machine's monotonic clock counts.
    """
    _pass(clock, 10**6)
    assert not lifetime.is_over
    now = clock.monotonic()
    assert all(lifetime.extend(now + seconds) for seconds in (10, 20, 15))
    _pass(clock, 19.9)
    clock.jump(timedelta(hours=1))
    assert not lifetime.is_over
    clock.jump(timedelta(hours=-2))
    _pass(clock, 0.1)
    assert lifetime.is_over

    assert not lifetime.extend(now + 1000)
    assert lifetime.is_over


def test_its_end_is_called_once_the_moment_has_passed() -> None:
    """The watching thread notices by itself, whatever the other threads wait for."""
    clock, ended = SystemClock(), threading.Event()
    lifetime = Lifetime(clock)
    lifetime.bind()
    lifetime.extend(clock.monotonic() + 0.1)

    lifetime.watch(ended.set)

    assert ended.wait(5)
    assert lifetime.is_over


class _NoJvm:
    """A session for programs that need none."""

    jvm_pid = 0
    executor = None
    application = None

    @contextlib.contextmanager
    def for_run(self, run: RunId, conf: Mapping[str, str]) -> Iterator[Any]:
        yield None

    def stages(self, run: RunId) -> NoStages:
        return NoStages()


def _carried_out(table: FakeTable, lifetime: Lifetime, *, before_answering: Callable[[Step], None]) -> Outcome:
    """Execute a compaction with every step granted, after `before_answering` its question."""
    told: list[FromWorker] = []

    def tell(frame: FromWorker) -> None:
        told.append(frame)
        if isinstance(frame, Asked):
            before_answering(frame.step)
            run.answer(PermitAnswer(run=RUN, step=frame.step, permit=Granted()))

    assignment = Assignment(
        run=RUN, epoch=1, table=TableId("t"), format="fake", location=str(table.folder), service=Service.COMPACTION
    )
    run = WorkerRun(assignment, tell=tell, expire=lambda: None, lifetime=lifetime)
    run.carry_out(FakeCompaction(), cast("Session", _NoJvm()), LocalStorage())
    ended = told[-1]
    assert isinstance(ended, Ended)
    return ended.outcome


@pytest.mark.parametrize("step", [*Step, None])
def test_a_permit_that_is_found_after_the_moment_is_void(
    step: Step | None, lifetime: Lifetime, clock: ManualClock, tmp_path: Path
) -> None:
    """If a worker was frozen between the permit and the step, it does not take the step. The table is not changed.
    Until the moment, a run works as any other.
    """
    table = FakeTable.create(tmp_path / "table")
    table.write()
    lifetime.extend(30)

    outcome = _carried_out(table, lifetime, before_answering=lambda asked: _pass(clock, 30 if asked is step else 0))

    if step is None:
        assert isinstance(outcome, Succeeded)
    else:
        assert isinstance(outcome, Yielded)
        assert "after the moment" in outcome.reason
    assert table.log_files == (0 if step is None else 1)


# A session on a standalone cluster ends when its application has ended there: it would wait for executors for ever.


APP = "app-20261124040607-0000"
ACTIVE = {"status": "ALIVE", "activeapps": [{"id": APP, "state": "WAITING"}], "completedapps": []}
ENDED = {"status": "ALIVE", "activeapps": [{"id": "other"}], "completedapps": [{"id": APP, "state": "FAILED"}]}


@pytest.mark.parametrize(
    ("master", "reason"),
    [
        (ENDED, f"its master has ended application {APP} (FAILED): the logs of its executors say why"),
        ({**ENDED, "completedapps": []}, f"its master does not know application {APP}: it was started again"),
    ],
)
def test_an_application_that_its_master_has_ended_or_does_not_know_is_gone(master: dict[str, Any], reason: str) -> None:
    """As after ten executors that could not start. Its driver is never registered again."""
    assert gone_from(master, APP) == reason


@pytest.mark.parametrize(
    "master",
    [ACTIVE, {**ENDED, "status": "STANDBY"}, {**ENDED, "status": "RECOVERING"}, {}, {**ENDED, "activeapps": None}],
)
def test_an_application_is_not_gone_while_its_master_knows_it_or_is_not_in_charge(master: dict[str, Any]) -> None:
    """Its runs go on: a master that is away stops no executor."""
    assert gone_from(master, APP) is None


def test_a_master_that_answers_nonsense_is_asked_again() -> None:
    """A thread that ends here would never tell that the application is gone."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            with listening.accept()[0] as connection:
                connection.recv(4096)
                connection.sendall(b"HTTP/1.1 not a number\r\n\r\n")

        Thread(target=answer, daemon=True).start()
        assert _look(f"http://127.0.0.1:{listening.getsockname()[1]}/json/", APP) is None
