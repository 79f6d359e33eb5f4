"""The gate's rules, on a clock that stands still: who is let through, how many at a time, and who rests."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.iceberg.catalogs.gate import (
    AT_FIRST,
    REST_SECONDS,
    SEVERAL,
    BusyError,
    Gate,
    RefusedError,
    TableRefusedError,
    UnreachableError,
)
from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError

TROUBLES: list[Callable[[], LakewardenError]] = [
    lambda: UnreachableError("no answer"),
    lambda: BusyError("too many", after=30),
    lambda: TemporaryError("500"),
    lambda: PermanentError("403"),
    lambda: RefusedError("401"),
    lambda: TableRefusedError("401"),
]


class Place:
    """A gate with its clock."""

    def __init__(self, *, at_most: int = 16) -> None:
        self.now = 1000.0
        self.gate = Gate("the catalog lake", lambda: self.now, at_most=at_most, timeout_seconds=10)

    def ask(self, table: str, *, trouble: LakewardenError | None = None, takes: float = 0) -> None:
        """Ask for a table, and get an answer after so many seconds."""
        with self.gate.passed(table):
            self.now += takes
            if trouble is not None:
                raise trouble


@given(
    asked=st.lists(
        st.tuples(st.integers(0, SEVERAL - 2), st.integers(0, len(TROUBLES) - 1), st.floats(0, 100)), max_size=60
    )
)
def test_a_healthy_table_is_never_refused_for_a_few_sick_ones(asked: list[tuple[int, int, float]]) -> None:
    """Whatever their trouble is, and however often they are asked for."""
    place = Place()
    for table, trouble, later in asked:
        with contextlib.suppress(LakewardenError):
            place.ask(f"sick{table}", trouble=TROUBLES[trouble]())
        place.ask("healthy")
        assert 1 <= place.gate.places <= 16
        place.now += later


@given(
    asked=st.lists(
        st.tuples(st.integers(0, 50), st.sampled_from(["500", "403", "well"]), st.floats(0, 10)), max_size=80
    )
)
def test_a_server_that_answers_is_never_taken_for_down(asked: list[tuple[int, str, float]]) -> None:
    """However many of its tables are broken."""
    place = Place()
    for table, answer, later in asked:
        trouble = {"500": TemporaryError("500"), "403": PermanentError("403"), "well": None}[answer]
        with contextlib.suppress(LakewardenError):
            place.ask(f"t{table}", trouble=trouble)
        place.ask("healthy")
        place.now += later


def test_as_many_may_ask_as_the_server_bears() -> None:
    """One more for each round of good answers, up to the setting; half of them after a slow answer or a plea."""
    place = Place(at_most=12)
    assert place.gate.places == AT_FIRST
    for _ in range(200):
        place.ask("t")
    assert place.gate.places == 12

    place.now += 1
    place.ask("t", takes=6)
    assert place.gate.places == 6
    with contextlib.suppress(LakewardenError):
        place.ask("t", trouble=BusyError("too many"))
    assert place.gate.places == 3
    for _ in range(10):
        place.now += 100
        with contextlib.suppress(LakewardenError):
            place.ask("t", trouble=UnreachableError("none"))
    assert place.gate.places == 1


def test_requests_that_were_under_way_together_count_once() -> None:
    """A hiccup of the server that met ten of them is one hiccup."""
    place = Place()
    for _ in range(200):
        place.ask("t")
    brackets = [place.gate.passed(f"t{number}") for number in range(10)]
    for bracket in brackets:
        bracket.__enter__()
    for bracket in brackets:
        place.now += 1
        trouble = BusyError("too many")
        assert not bracket.__exit__(BusyError, trouble, None)
    assert place.gate.places == 8


def test_tables_in_trouble_share_a_quarter_of_the_places() -> None:
    """So that those which hang for the time-out leave the others their way."""
    place = Place(at_most=8)
    for _ in range(200):
        place.ask("t")
    for number in range(4):
        with contextlib.suppress(LakewardenError):
            place.ask(f"sick{number}", trouble=TemporaryError("500"))
    place.now += REST_SECONDS

    with place.gate.passed("sick0"), place.gate.passed("sick1"):
        waits = threading.Thread(target=lambda: place.ask("sick2"), daemon=True)
        waits.start()
        for number in range(6):
            with contextlib.ExitStack() as others:
                for healthy in range(number):
                    others.enter_context(place.gate.passed(f"t{healthy}"))
        assert waits.is_alive()
    waits.join(5)
    assert not waits.is_alive()


def test_only_one_asks_whether_a_server_is_up_again() -> None:
    """The others are told at once what it was; with its answer all may ask."""
    place = Place()
    for number in range(SEVERAL):
        with contextlib.suppress(LakewardenError):
            place.ask(f"t{number}", trouble=UnreachableError("no answer"))
    with pytest.raises(TemporaryError, match="no answer"):
        place.ask("another")
    place.now += REST_SECONDS

    with place.gate.passed("first"), pytest.raises(TemporaryError, match="no answer"):
        place.ask("another")
    place.ask("another")


def test_an_answer_in_between_shows_that_the_server_is_up() -> None:
    """However many tables hang: as long as one does not, it is they."""
    place = Place()
    for number in range(30):
        with contextlib.suppress(LakewardenError):
            place.ask(f"t{number}", trouble=UnreachableError("no answer"))
        place.ask("healthy")
