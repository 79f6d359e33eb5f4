"""Threads for calls that may hang: a place that hangs takes none of the threads of another."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import wait
from functools import partial

import pytest

from lakewarden.service.state.readers.threads import PlacedThreads
from tests.support.waiting import HANGS


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Return what the calls to dead places wait for."""
    event = threading.Event()
    yield event
    event.set()


def test_however_many_places_hang_the_next_one_is_served(gate: threading.Event) -> None:
    """Sixteen dead buckets occupied all 64 threads, and the claims of healthy tables were not renewed."""
    threads = PlacedThreads(most=8, of_a_place=4)
    for place in range(20):
        for _ in range(10):
            threads.submit(gate.wait, place=f"dead {place}")
    assert threads.submit(lambda: "served", place="alive").result(timeout=HANGS) == "served"


def test_a_place_never_has_more_calls_at_once_than_it_may(gate: threading.Event) -> None:
    """The others wait for their turn, and all are carried out in order."""
    threads = PlacedThreads(most=8, of_a_place=2)
    begun: list[int] = []

    def call(number: int) -> None:
        begun.append(number)
        gate.wait()

    calls = [threads.submit(partial(call, number), place="one") for number in range(6)]
    while len(begun) < 2:
        time.sleep(0.001)
    assert [one.running() for one in calls] == [True, True, False, False, False, False]
    gate.set()
    wait(calls, timeout=HANGS)
    assert sorted(begun) == list(range(6))


def test_threads_end_when_nothing_waits(gate: threading.Event) -> None:
    """So a place that was used once keeps nothing."""
    before = set(threading.enumerate())
    threads = PlacedThreads()
    calls = [threads.submit(gate.wait, place=f"{number}") for number in range(20)]
    ours = set(threading.enumerate()) - before
    assert len(ours) == len(calls)
    gate.set()
    for thread in ours:
        thread.join(timeout=HANGS)
        assert not thread.is_alive()


def test_a_failure_is_raised_where_the_answer_is_read() -> None:
    """The thread goes on with what waits."""
    threads = PlacedThreads(of_a_place=1)
    failed = threads.submit(lambda: 1 // 0, place="one")
    assert threads.submit(lambda: 2, place="one").result(timeout=HANGS) == 2
    with pytest.raises(ZeroDivisionError):
        failed.result(timeout=HANGS)
