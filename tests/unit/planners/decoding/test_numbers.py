"""Numbers from outside, at the point where they become facts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakewarden.planners.decoding.json_stream import count, counted, long, moment

ANYTHING = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**64), 2**64)
    | st.floats()
    | st.text()
    | st.from_regex(r"-?[0-9]{1,25}", fullmatch=True)
    | st.lists(st.integers())
)


@given(value=ANYTHING)
@example(value=10**400)
@example(value=-(10**5000))
@example(value=float("inf"))
@example(value=float("nan"))
@example(value="9" * 5000)
@example(value="--1")
@example(value="-")
@example(value="²")
def test_a_number_is_one_of_64_bits_or_a_short_error(value: Any) -> None:
    """A number that a metric, a database or a calendar cannot hold goes no further, whatever a file says."""
    for kind, least in ((long, -(2**63)), (count, 0)):
        found = said(kind, value)
        assert len(found) < 200 if isinstance(found, str) else least <= found < 2**63
    at = said(moment, value)
    assert len(at) < 200 if isinstance(at, str) else at + timedelta(days=365_000) > datetime(1970, 1, 1, tzinfo=UTC)


def said(make: Callable[[Any], Any], value: Any) -> Any:
    """Return the number, or the error for a wrong value."""
    try:
        return make(value)
    except ValueError as wrong:
        return str(wrong)


@pytest.mark.parametrize(("value", "number"), [(7, 7), ("7", 7), (7.9, 7), (2**63 - 1, 2**63 - 1), ("0", 0)])
def test_whole_numbers_are_counts_however_they_are_written(value: Any, number: int) -> None:
    """Summaries write them as text, and metrics of plans as floats."""
    assert count(value) == number


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("17", 17), (str(2**63 - 1), 2**63 - 1), (str(2**63), None), ("9" * 400, None), ("²", None),
     ("-1", None), ("", None), (" 1", None), ("soon", None)],
)  # fmt: skip
def test_a_count_in_digits_is_a_count_and_no_other_text_is(text: str, number: int | None) -> None:
    """The largest long stands for "never"."""
    assert counted(text) == number
