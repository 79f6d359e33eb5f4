"""What a policy of an Iceberg table may say."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from lakewarden.planners.formats.iceberg.options.service_options import (
    ClusteringOptions,
    CompactionOptions,
    OrphansOptions,
    SortedBy,
    age_of_orphans,
    least_age_of_orphans,
    parse_sort_order,
)
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions
from lakewarden.planners.formats.iceberg.options.where import parse_where

# The age of a file before it can count as an orphan.


DAY = timedelta(days=1)
AGES = st.timedeltas(min_value=timedelta(0), max_value=365 * DAY)


@given(asked=st.none() | AGES, outage=AGES, restores=AGES)
def test_nothing_is_an_orphan_that_a_writer_or_a_checkpoint_may_still_commit(
    asked: timedelta | None, outage: timedelta, restores: timedelta
) -> None:
    """This holds for any argument of a program, checked or not."""
    options = IcebergTableOptions.model_construct(longest_outage=outage, flink_restores=restores)
    found = age_of_orphans(OrphansOptions.model_construct(older_than=asked), options)
    assert found.age >= max(DAY, outage, restores, asked or DAY)
    assert found.age in {3 * DAY if asked is None else asked, least_age_of_orphans(options).age}


def test_an_age_says_where_it_comes_from() -> None:
    """The message names the setting that keeps the file."""
    by_default = IcebergTableOptions()
    assert str(age_of_orphans(OrphansOptions(), by_default)).startswith("7d (options.flink_restores, for a Flink job")
    asked = OrphansOptions.model_validate({"older_than": "30d"})
    assert str(age_of_orphans(asked, by_default)) == "30d (older_than)"
    nobody = IcebergTableOptions.model_validate({"longest_outage": "0s", "flink_restores": "0s"})
    assert str(age_of_orphans(OrphansOptions(), nobody)) == "3d (by default)"


# A sort order as a policy writes it.

_NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,8}(\.[a-z_]{1,5})?", fullmatch=True)


@given(st.lists(st.builds(SortedBy, column=_NAMES, descending=st.booleans(), nulls_last=st.booleans()), min_size=1))
def test_what_is_written_out_in_full_is_read_as_it_was_meant(columns: list[SortedBy]) -> None:
    """Any order of columns, directions and null positions is written and read back, in small letters too."""
    text = ", ".join(
        f"{one.column} {'desc' if one.descending else 'ASC'} NULLS {'LAST' if one.nulls_last else 'first'}"
        for one in columns
    )
    assert parse_sort_order(text) == tuple(columns)


def test_where_it_is_silent_nulls_are_the_least() -> None:
    """Iceberg has the same defaults: ascending rows begin with nulls, descending rows end with them."""
    assert parse_sort_order("day DESC, `odd name`") == (
        SortedBy(column="day", descending=True, nulls_last=True),
        SortedBy(column="odd name", descending=False, nulls_last=False),
    )


@pytest.mark.parametrize("text", ["", "id,", "bucket(16, id)", "id DOWN", "a b", "id NULLS", "id; drop table t"])
def test_what_is_no_order_is_refused_when_the_configuration_is_read(text: str) -> None:
    """The error shows the syntax. It comes before any run."""
    with pytest.raises(ValidationError, match="not a column with its order: write it as in `day DESC NULLS LAST, id`"):
        ClusteringOptions(sort_order=text)


# A predicate over partitions as a policy writes it.


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
    with pytest.raises(ValidationError, match="not a condition on a partition: write it as in"):
        CompactionOptions(where=text)
