"""The poll queue: every table has at most one appointment, the earliest one asked for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.model.table import TableId
from lakewarden.service.scheduling.poller import PollQueue

A, B, C = TableId("a"), TableId("b"), TableId("c")

_puts = st.tuples(st.just("put"), st.sampled_from([A, B, C]), st.integers(0, 20).map(float))
_pops = st.tuples(st.just("pop"), st.just(A), st.integers(0, 20).map(float))


def test_a_table_comes_up_when_its_time_has_come() -> None:
    """Not before, and once."""
    poll_queue = PollQueue()
    poll_queue.put(A, 5.0)

    assert poll_queue.pop(4.9) is None
    assert poll_queue.pop(5.0) == A
    assert poll_queue.pop(99.0) is None


def test_the_longest_overdue_comes_first() -> None:
    """Whatever the order in which the appointments were made."""
    poll_queue = PollQueue()
    for table, at in ((B, 2.0), (C, 3.0), (A, 1.0)):
        poll_queue.put(table, at)

    assert [poll_queue.pop(9.0) for _ in range(3)] == [A, B, C]


def test_the_earliest_wish_counts() -> None:
    """A later one neither postpones the appointment nor makes a second one."""
    poll_queue = PollQueue()
    for at in (5.0, 2.0, 8.0):
        poll_queue.put(A, at)

    assert len(poll_queue) == 1
    assert poll_queue.pop(2.0) == A
    assert poll_queue.pop(99.0) is None


def test_the_next_appointment_is_never_told_too_late() -> None:
    """Nor too early, whatever was cancelled or moved."""
    poll_queue = PollQueue()
    assert poll_queue.next_at() is None

    poll_queue.put(A, 5.0)
    poll_queue.put(B, 3.0)
    assert poll_queue.next_at() == 3.0

    poll_queue.pop(3.0)
    assert poll_queue.next_at() == 5.0


@given(st.lists(_puts | _pops))
def test_the_agenda_behaves_like_a_table_of_earliest_wishes(steps: list[tuple[str, TableId, float]]) -> None:
    """After any puts and pops it answers as a plain dictionary of table and time would."""
    poll_queue, model = PollQueue(), dict[TableId, float]()
    for act, table, at in steps:
        if act == "put":
            poll_queue.put(table, at)
            model[table] = min(at, model.get(table, at))
        else:
            popped = poll_queue.pop(at)
            earliest = min(model.values(), default=None)
            if earliest is None or earliest > at:
                assert popped is None
            else:
                assert popped is not None
                assert model.pop(popped) == earliest
        assert len(poll_queue) == len(model)
        next_at = poll_queue.next_at()
        assert not model or (next_at is not None and next_at <= min(model.values()))


def test_an_appointment_that_was_cancelled_or_moved_is_not_the_next_one() -> None:
    """Else the control thread wakes up for nothing, again and again if it may not act meanwhile."""
    poll_queue = PollQueue()
    poll_queue.put(A, 5.0)
    poll_queue.put(A, 2.0)
    poll_queue.put(B, 3.0)
    poll_queue.drop(A)
    assert poll_queue.next_at() == 3.0
    poll_queue.drop(B)
    assert poll_queue.next_at() is None
