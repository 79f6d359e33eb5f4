"""The command queue: where other threads reach the control thread."""

from __future__ import annotations

import threading

import pytest

from lakewarden.executors.contract import CapacityChanged
from lakewarden.planners.model.table import TableId
from lakewarden.service.control.command_queue import CommandQueue

LONG = 60.0
"""Seconds that no test waits: each of them is woken long before."""


def test_ten_thousand_marks_of_one_table_are_one() -> None:
    """A flood of hooks costs one look."""
    commands = CommandQueue()
    for _ in range(10_000):
        commands.mark_dirty(TableId("trips"))

    assert commands.take() == ([], {TableId("trips"): False})
    assert commands.take() == ([], {})


def test_a_hook_is_told_apart_from_another_reason_to_look() -> None:
    """Whatever comes first."""
    commands = CommandQueue()
    commands.mark_dirty(TableId("trips"))
    commands.hook_arrived(TableId("trips"))
    commands.mark_dirty(TableId("trips"))

    assert commands.take() == ([], {TableId("trips"): True})


def test_letters_keep_their_order_and_are_taken_once() -> None:
    """What a pool tells of one run is heard in the order in which it was told."""
    commands = CommandQueue()
    messages = [CapacityChanged(reason=str(number)) for number in range(100)]
    for message in messages:
        commands.put(message)

    assert commands.take() == (messages, {})
    assert commands.take() == ([], {})


WAKERS = {
    "a message": lambda commands: commands.put(CapacityChanged(reason="ready")),
    "a dirty table": lambda commands: commands.mark_dirty(TableId("trips")),
    "a call": lambda commands: commands.wake(),
}


@pytest.mark.parametrize("waker", WAKERS)
@pytest.mark.timeout(30)
def test_what_came_before_the_wait_is_not_slept_through(waker: str) -> None:
    """Between taking and waiting nothing gets lost."""
    commands = CommandQueue()
    WAKERS[waker](commands)

    commands.wait(LONG)


@pytest.mark.parametrize("waker", WAKERS)
@pytest.mark.timeout(30)
def test_whatever_comes_in_ends_the_sleep(waker: str) -> None:
    """A thread that sleeps in `wait` wakes up for messages, marks and calls alike."""
    commands = CommandQueue()
    sleeper = threading.Thread(target=commands.wait, args=(LONG,))
    sleeper.start()

    WAKERS[waker](commands)

    sleeper.join(LONG / 2)
    assert not sleeper.is_alive()


def test_a_call_wakes_one_sleep_only() -> None:
    """After the messages were taken, an old call does not end the next sleep."""
    commands = CommandQueue()
    commands.wake()
    commands.take()
    woken = threading.Event()

    def sleep() -> None:
        commands.wait(LONG)
        woken.set()

    sleeper = threading.Thread(target=sleep)
    sleeper.start()
    assert not woken.wait(0.05)
    commands.wake()
    sleeper.join(LONG / 2)
    assert woken.is_set()


def test_threads_that_put_at_once_lose_nothing() -> None:
    """Every message of every thread arrives exactly once."""
    commands = CommandQueue()

    def put(thread: int) -> None:
        for number in range(500):
            commands.put(CapacityChanged(reason=f"{thread}.{number}"))

    threads = [threading.Thread(target=put, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    taken = list[str]()
    while any(thread.is_alive() for thread in threads):
        taken += [message.reason for message in commands.take()[0] if isinstance(message, CapacityChanged)]
    taken += [message.reason for message in commands.take()[0] if isinstance(message, CapacityChanged)]

    assert sorted(taken) == sorted(f"{thread}.{number}" for thread in range(4) for number in range(500))
