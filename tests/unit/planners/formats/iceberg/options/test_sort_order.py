"""A sort order as a policy writes it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from lakewarden.planners.formats.iceberg.options.service_options import ClusteringOptions, SortedBy, parse_sort_order

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
    with pytest.raises(ValidationError, match="no column with its order: write it as in `day DESC NULLS LAST, id`"):
        ClusteringOptions(sort_order=text)
