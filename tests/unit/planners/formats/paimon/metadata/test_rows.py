"""Partitions are named as their folders are (the rows are of pypaimon 2.1.0)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.paimon.metadata.files import partition_path
from tests.support.paimon.paimon_table import partition_row

_ONE = (1).to_bytes(4, "big")
_LONG_TEXT = _ONE + bytes(8) + (10).to_bytes(4, "little") + (16).to_bytes(4, "little") + b"2026-01-01" + bytes(6)
_TWO = (2).to_bytes(4, "big") + bytes(8) + (7).to_bytes(8, "little") + b"x" + bytes(6) + b"\x81"


@pytest.mark.parametrize(
    ("row", "types", "path"),
    [
        (bytes.fromhex("0000000100000000000000006100000000000081"), ["STRING"], "p=a"),  # its last byte has its length
        (_LONG_TEXT, ["VARCHAR"], "p=2026-01-01"),  # it stands behind the fields
        (partition_row(7), ["INT"], "p=7"),
        (partition_row(7), ["BIGINT"], "p=7"),
        (partition_row(7), ["SMALLINT"], "p=7"),
        (partition_row(7), ["TINYINT"], "p=7"),
        (partition_row(7), ["DATE"], "p=1970-01-08"),
        (partition_row(7), ["BOOLEAN"], "p=true"),
        (_ONE + b"\0\1" + bytes(14), ["INT"], "p=__DEFAULT_PARTITION__"),  # the bit of an empty field is set
        (_TWO, ["INT", "STRING"], "p=7/q=x"),
        (bytes(12), [], ""),
    ],
)
def test_a_partition_is_named_by_its_values(row: bytes, types: list[str], path: str) -> None:
    assert partition_path(row, ["p", "q"][: len(types)], types) == path


@given(row=st.binary(max_size=60), kind=st.sampled_from(["INT", "STRING", "DATE", "BOOLEAN", "DECIMAL"]))
def test_whatever_the_bytes_are_they_have_a_name(row: bytes, kind: str) -> None:
    assert len(partition_path(row, ["p"], [kind]).encode()) < 2000
