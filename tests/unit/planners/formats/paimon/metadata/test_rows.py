"""Partitions are named as their folders are (the rows are of pypaimon 2.1.0)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.paimon.metadata.files import partition_path
from tests.support.paimon.paimon_table import partition_row

_TEXT = bytes.fromhex("0000000100000000000000006100000000000081")


def test_a_short_text_stands_in_its_field() -> None:
    """Its last byte has its length."""
    assert partition_path(_TEXT, ["dt"], ["STRING"]) == "dt=a"


def test_a_long_text_stands_behind_the_fields() -> None:
    """Its field has where it begins, and its length."""
    field = (10).to_bytes(4, "little") + (16).to_bytes(4, "little")
    row = (1).to_bytes(4, "big") + bytes(8) + field + b"2026-01-01" + bytes(6)
    assert partition_path(row, ["dt"], ["VARCHAR"]) == "dt=2026-01-01"


@pytest.mark.parametrize(
    ("kind", "value"),
    [("INT", "7"), ("BIGINT", "7"), ("SMALLINT", "7"), ("TINYINT", "7"), ("DATE", "1970-01-08"), ("BOOLEAN", "true")],
)
def test_a_number_stands_in_its_field(kind: str, value: str) -> None:
    """With its lowest byte first."""
    assert partition_path(partition_row(7), ["p"], [kind]) == f"p={value}"


def test_nothing_has_the_name_that_paimon_gives_it() -> None:
    """The bit of the field is set, behind the byte of the row's kind."""
    row = (1).to_bytes(4, "big") + b"\0\1" + bytes(14)
    assert partition_path(row, ["p"], ["INT"]) == "p=__DEFAULT_PARTITION__"


def test_two_values_are_two_folders() -> None:
    """In the order of the keys; a table without keys has one partition."""
    row = (2).to_bytes(4, "big") + bytes(8) + (7).to_bytes(8, "little") + b"x" + bytes(6) + b"\x81"
    assert partition_path(row, ["p", "q"], ["INT", "STRING"]) == "p=7/q=x"
    assert partition_path(bytes(12), [], []) == ""


@given(row=st.binary(max_size=60), kind=st.sampled_from(["INT", "STRING", "DATE", "BOOLEAN", "DECIMAL"]))
def test_whatever_the_bytes_are_they_have_a_name(row: bytes, kind: str) -> None:
    """Which can be encoded, and is short."""
    assert len(partition_path(row, ["p"], [kind]).encode()) < 2000
