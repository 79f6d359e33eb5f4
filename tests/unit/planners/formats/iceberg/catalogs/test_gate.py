"""The rules of the gate, on a clock that stands still: which requests pass, how many at a time, and which
tables wait.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.iceberg.catalogs.circuit_breaker import (
    AT_FIRST,
    REST_SECONDS,
    SEVERAL,
    BusyError,
    CircuitBreaker,
    LoginRefusedError,
    TableRefusedError,
    UnreachableError,
)
from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError

FAILURES: list[Callable[[], LakewardenError]] = [
    lambda: UnreachableError("no answer"),
    lambda: BusyError("too many", after=30),
    lambda: TemporaryError("500"),
    lambda: PermanentError("403"),
    lambda: LoginRefusedError("401"),
    lambda: TableRefusedError("401"),
]


class Place:
    """A gate with its clock."""

    def __init__(self, *, at_most: int = 16) -> None:
        self.now = 1000.0
        self.circuit_breaker = CircuitBreaker("the catalog lake", lambda: self.now, at_most=at_most, timeout_seconds=10)

    def ask(self, table: str, *, error: LakewardenError | None = None, takes: float = 0) -> None:
        """Ask for a table, and get an answer after so many seconds."""
        with self.circuit_breaker.passed(table):
            self.now += takes
            if error is not None:
                raise error


@given(
    asked=st.lists(
        st.tuples(st.integers(0, SEVERAL - 2), st.integers(0, len(FAILURES) - 1), st.floats(0, 100)), max_size=60
    )
)
def test_a_healthy_table_is_never_refused_for_a_few_sick_ones(asked: list[tuple[int, int, float]]) -> None:
    """This holds for every kind of error, and for any number of requests to the failing tables."""
    place = Place()
    for table, error, later in asked:
        with contextlib.suppress(LakewardenError):
            place.ask(f"sick{table}", error=FAILURES[error]())
        place.ask("healthy")
        assert 1 <= place.circuit_breaker.places <= 16
        place.now += later


@given(
    asked=st.lists(
        st.tuples(st.integers(0, 50), st.sampled_from(["500", "403", "well"]), st.floats(0, 10)), max_size=80
    )
)
def test_a_server_that_answers_is_never_taken_for_down(asked: list[tuple[int, str, float]]) -> None:
    """This holds for any number of broken tables."""
    place = Place()
    for table, answer, later in asked:
        error = {"500": TemporaryError("500"), "403": PermanentError("403"), "well": None}[answer]
        with contextlib.suppress(LakewardenError):
            place.ask(f"t{table}", error=error)
        place.ask("healthy")
        place.now += later


def test_as_many_may_ask_as_the_server_bears() -> None:
    """The limit rises by one for each round of good answers, up to the setting. A slow answer, or a request to slow
    down, halves it.
    """
    place = Place(at_most=12)
    assert place.circuit_breaker.places == AT_FIRST
    for _ in range(200):
        place.ask("t")
    assert place.circuit_breaker.places == 12

    place.now += 1
    place.ask("t", takes=6)
    assert place.circuit_breaker.places == 6
    with contextlib.suppress(LakewardenError):
        place.ask("t", error=BusyError("too many"))
    assert place.circuit_breaker.places == 3
    for _ in range(10):
        place.now += 100
        with contextlib.suppress(LakewardenError):
            place.ask("t", error=UnreachableError("none"))
    assert place.circuit_breaker.places == 1


def test_requests_that_were_under_way_together_count_once() -> None:
    """If one failure of the server affects ten requests, it is one failure."""
    place = Place()
    for _ in range(200):
        place.ask("t")
    brackets = [place.circuit_breaker.passed(f"t{number}") for number in range(10)]
    for bracket in brackets:
        bracket.__enter__()
    for bracket in brackets:
        place.now += 1
        error = BusyError("too many")
        assert not bracket.__exit__(BusyError, error, None)
    assert place.circuit_breaker.places == 8


def test_tables_in_trouble_share_a_quarter_of_the_places() -> None:
    """So requests that hang until the time-out leave the other places free."""
    place = Place(at_most=8)
    for _ in range(200):
        place.ask("t")
    for number in range(4):
        with contextlib.suppress(LakewardenError):
            place.ask(f"sick{number}", error=TemporaryError("500"))
    place.now += REST_SECONDS

    with place.circuit_breaker.passed("sick0"), place.circuit_breaker.passed("sick1"):
        waits = threading.Thread(target=lambda: place.ask("sick2"), daemon=True)
        waits.start()
        for number in range(6):
            with contextlib.ExitStack() as others:
                for healthy in range(number):
                    others.enter_context(place.circuit_breaker.passed(f"t{healthy}"))
        assert waits.is_alive()
    waits.join(5)
    assert not waits.is_alive()


def test_only_one_asks_whether_a_server_is_up_again() -> None:
    """The other requests get the last error at once. After its answer all requests pass."""
    place = Place()
    for number in range(SEVERAL):
        with contextlib.suppress(LakewardenError):
            place.ask(f"t{number}", error=UnreachableError("no answer"))
    with pytest.raises(TemporaryError, match="no answer"):
        place.ask("another")
    place.now += REST_SECONDS

    with place.circuit_breaker.passed("first"), pytest.raises(TemporaryError, match="no answer"):
        place.ask("another")
    place.ask("another")


def test_an_answer_in_between_shows_that_the_server_is_up() -> None:
    """If one table is answered, the server is up, however many other tables hang."""
    place = Place()
    for number in range(30):
        with contextlib.suppress(LakewardenError):
            place.ask(f"t{number}", error=UnreachableError("no answer"))
        place.ask("healthy")
