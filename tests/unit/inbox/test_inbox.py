"""The inbox: where other threads reach the control thread."""

from __future__ import annotations

import threading

import pytest

from lakewarden.executors.contract import RoomChanged
from lakewarden.planners.model.table import TableId
from lakewarden.service.control.commands import CommandQueue

LONG = 60.0
"""Seconds that no test waits: each of them is woken long before."""


def test_ten_thousand_marks_of_one_table_are_one() -> None:
    """A flood of hooks costs one look."""
    inbox = CommandQueue()
    for _ in range(10_000):
        inbox.mark_dirty(TableId("trips"))

    assert inbox.take() == ([], {TableId("trips")})
    assert inbox.take() == ([], set())


def test_letters_keep_their_order_and_are_taken_once() -> None:
    """What a pool tells of one run is heard in the order in which it was told."""
    inbox = CommandQueue()
    letters = [RoomChanged(reason=str(number)) for number in range(100)]
    for letter in letters:
        inbox.put(letter)

    assert inbox.take() == (letters, set())
    assert inbox.take() == ([], set())


WAKERS = {
    "a letter": lambda inbox: inbox.put(RoomChanged(reason="ready")),
    "a dirty table": lambda inbox: inbox.mark_dirty(TableId("trips")),
    "a call": lambda inbox: inbox.wake(),
}


@pytest.mark.parametrize("waker", WAKERS)
@pytest.mark.timeout(30)
def test_what_came_before_the_wait_is_not_slept_through(waker: str) -> None:
    """Between taking and waiting nothing gets lost."""
    inbox = CommandQueue()
    WAKERS[waker](inbox)

    inbox.wait(LONG)


@pytest.mark.parametrize("waker", WAKERS)
@pytest.mark.timeout(30)
def test_whatever_comes_in_ends_the_sleep(waker: str) -> None:
    """A thread that sleeps in `wait` wakes up for letters, marks and calls alike."""
    inbox = CommandQueue()
    sleeper = threading.Thread(target=inbox.wait, args=(LONG,))
    sleeper.start()

    WAKERS[waker](inbox)

    sleeper.join(LONG / 2)
    assert not sleeper.is_alive()


def test_a_call_wakes_one_sleep_only() -> None:
    """After the letters were taken, an old call does not end the next sleep."""
    inbox = CommandQueue()
    inbox.wake()
    inbox.take()
    woken = threading.Event()

    def sleep() -> None:
        inbox.wait(LONG)
        woken.set()

    sleeper = threading.Thread(target=sleep)
    sleeper.start()
    assert not woken.wait(0.05)
    inbox.wake()
    sleeper.join(LONG / 2)
    assert woken.is_set()


def test_threads_that_put_at_once_lose_nothing() -> None:
    """Every letter of every thread arrives exactly once."""
    inbox = CommandQueue()

    def put(thread: int) -> None:
        for number in range(500):
            inbox.put(RoomChanged(reason=f"{thread}.{number}"))

    threads = [threading.Thread(target=put, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    taken = list[str]()
    while any(thread.is_alive() for thread in threads):
        taken += [letter.reason for letter in inbox.take()[0] if isinstance(letter, RoomChanged)]
    taken += [letter.reason for letter in inbox.take()[0] if isinstance(letter, RoomChanged)]

    assert sorted(taken) == sorted(f"{thread}.{number}" for thread in range(4) for number in range(500))
