"""The folder of a partition and its entry in a metastore are recognised as one."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.directory.metastore import (
    column_of,
    compared,
    up_to_of,
    values_in,
    values_of,
)

_VALUES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20)


@given(values=st.lists(_VALUES, min_size=1, max_size=4))
def test_a_folder_and_its_entry_have_the_same_values(values: list[str]) -> None:
    """Both are escaped, by Hive's rule or by that of a writer that escapes more."""
    columns = [column_of(f"k{number}", "string") for number in range(len(values))]
    path = "/".join(f"K{number}={quote(value, safe='')}" for number, value in enumerate(values))
    assert values_of(path, columns) == tuple(values)
    assert values_in(path) == tuple(values)


@pytest.mark.parametrize("path", ["", "dt=1", "dt=1/hr=2/mi=3", "dt=1/other=2", "dt=1/2", "1"])
def test_folders_that_are_not_the_columns_have_no_values(path: str) -> None:
    """A metastore has no entry for them."""
    assert values_of(path, [column_of("dt", "string"), column_of("hr", "int")]) is None


def test_levels_without_a_column_are_taken_in_their_order() -> None:
    """As in `2026/03/01`. Columns that are named may stand in any order, and in any case."""
    columns = [column_of("Day", "string"), column_of("hour", "string")]
    assert values_of("2026-03-01/07", columns) == ("2026-03-01", "07")
    assert values_of("hour=07/day=2026-03-01", columns) == ("2026-03-01", "07")


def test_a_whole_number_is_the_same_however_it_is_written() -> None:
    """Hive's client lists `hr=07` of an int as `7`. A text keeps its zeros."""
    columns = [column_of("dt", "string"), column_of("hr", "INT")]
    assert compared(("01", "07"), columns) == ("01", "7")
    assert compared(("01", "__HIVE_DEFAULT_PARTITION__"), columns) == ("01", "__HIVE_DEFAULT_PARTITION__")


@pytest.mark.parametrize(
    ("parameters", "up_to"),
    [
        ({}, 0.0),
        ({"transient_lastDdlTime": "1772352000"}, 1772352000.0),
        ({"transient_lastDdlTime": "1772352000", "lakewarden.changed-at": "1772359999.25"}, 1772359999.25),
        ({"lakewarden.changed-at": "nan", "transient_lastDdlTime": "5"}, 5.0),
        ({"lakewarden.changed-at": "soon"}, 0.0),
    ],
)
def test_an_entry_says_up_to_which_change_its_partition_is_committed(parameters: dict[str, str], up_to: float) -> None:
    """An entry of another program counts from when it was made. What cannot be read counts as never."""
    assert up_to_of(parameters) == up_to
