"""Tasks of a program that are done in several threads."""

from __future__ import annotations

import threading

from lakewarden.executors.programs.bracket import carry_out


def test_as_many_tasks_are_under_way_as_asked_for_and_each_is_done_once() -> None:
    """No thread of them works any more when the call returns."""
    together, done = threading.Barrier(3, timeout=10), list[int]()

    def work(task: int) -> None:
        together.wait()
        done.append(task)

    errors = carry_out(range(9), work, at_a_time=3, stops=lambda _: True)

    assert sorted(done) == list(range(9))
    assert (errors.failures, errors.stopped) == ([], False)


def test_no_task_is_begun_after_an_error_that_stops_and_every_task_after_another_one() -> None:
    """The errors are kept in the order in which they came."""
    begun = list[int]()

    def work(task: int) -> None:
        begun.append(task)
        if task != 3:
            raise ValueError(task) if task < 3 else KeyError(task)

    errors = carry_out(range(9), work, at_a_time=1, stops=lambda error: isinstance(error, KeyError))

    assert begun == [0, 1, 2, 3, 4]
    assert [type(one) for one in errors.failures] == [ValueError, ValueError, ValueError, KeyError]
    assert errors.stopped
