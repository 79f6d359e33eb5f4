"""A predicate over partitions as a policy writes it."""

from __future__ import annotations

from urllib.parse import quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from lakewarden.planners.formats.iceberg.options.service_options import CompactionOptions
from lakewarden.planners.formats.iceberg.options.where import parse_where


@pytest.mark.parametrize(
    ("where", "fits", "fits_not"),
    [
        ("p = 3", ["p=3", "p=3.0", "day=x/p=3"], ["p=30", "p=null", "p=x", "q=3", ""]),
        ("p < 10", ["p=9", "p=-1"], ["p=10", "p=null", "p=nan"]),
        ("day >= '2026-01-31'", ["day=2026-01-31", "day=2026-02-01"], ["day=2026-01-30", "day=null"]),
        ("region IN ('eu', 'u s')", ["region=eu", "region=u+s"], ["region=us", "region=null"]),
        ("region not in ('eu')", ["region=us"], ["region=eu", "region=null"]),
        ("region <> 'eu'", ["region=us"], ["region=eu", "region=null"]),
        ("p IS NULL", ["p=null"], ["p=0", ""]),
        ("p is not null and p != 2", ["p=1"], ["p=2", "p=null"]),
        ("`odd name` = 'it''s'", ["odd+name=it%27s"], ["odd+name=its"]),
        ("open = TRUE", ["open=true"], ["open=false"]),
        ("a >= 1 AND b IN (2, 3)", ["a=1/b=3", "b=2/a=7"], ["a=0/b=2", "a=1/b=4", "a=1"]),
    ],
)
def test_a_predicate_tells_partitions_by_their_names(where: str, fits: list[str], fits_not: list[str]) -> None:
    """Numbers are compared by value, everything else as text. A null or a missing field matches no comparison."""
    found = parse_where(where)
    assert [one for one in (*fits, *fits_not) if found.matches(one)] == fits


@given(st.text(min_size=1, max_size=20).filter(lambda text: text != "null"), st.text(min_size=1, max_size=20))
def test_any_text_may_be_asked_for(value: str, other: str) -> None:
    """The text is escaped as in SQL on one side, and as in a partition's name on the other."""
    found = parse_where("name = '{}'".format(value.replace("'", "''")))
    assert found.matches(f"name={quote_plus(value)}")
    assert found.matches(f"name={quote_plus(other)}") is (other == value)


@pytest.mark.parametrize(
    "text",
    [
        "p",
        "p =",
        "p = x",
        "p = 1 OR p = 2",
        "p = 1 AND",
        "p IN ()",
        "p IN (1",
        "bucket(16, id) = 3",
        "p = 1; drop table t",
        "p = 'a",
        "p LIKE 'a%'",
        "p = 1 p = 2",
    ],
)
def test_what_is_no_predicate_is_refused_when_the_configuration_is_read(text: str) -> None:
    """The error shows the syntax. It comes before any run."""
    with pytest.raises(ValidationError, match="no condition on a partition: write it as in"):
        CompactionOptions(where=text)
