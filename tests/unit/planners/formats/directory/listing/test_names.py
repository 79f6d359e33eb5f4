"""What a name in a directory stands for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.directory.listing.folders import EntryKind, is_hidden, kind_of, partition_values


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("part-3c5b4d7e-0d6c-4a39-a0d5-5b4b2e9f9d11-0-12", EntryKind.DATA),  # Flink's, without an extension
        ("part-00000-1f0b.c000.snappy.parquet", EntryKind.DATA),
        ("000000_0", EntryKind.DATA),  # Hive's
        ("rows.csv.gz", EntryKind.DATA),
        ("dt=2026-03-01", EntryKind.DATA),
        ("_id=7", EntryKind.DATA),  # a partition column may begin so: Spark's rule
        ("_SUCCESS", EntryKind.MARKER),
        (".part-3c5b-0-12.inprogress.77aa", EntryKind.STAGED),
        ("part-3c5b-0-12.inprogress.77aa", EntryKind.STAGED),
        ("_part-3c5b-0-12_tmp_77aa", EntryKind.STAGED),  # the tail of Flink's upload to S3
        (".uncompacted-part-3c5b-0-12", EntryKind.STAGED),
        ("_temporary", EntryKind.STAGED),
        (".spark-staging-1f0b", EntryKind.STAGED),
        (".hive-staging_hive_2026-03-01", EntryKind.STAGED),
        (".staging_1772366400000", EntryKind.STAGED),
        ("rows.csv._COPYING_", EntryKind.STAGED),
        ("rows.csv.tmp", EntryKind.STAGED),
        (".somebody", EntryKind.STAGED),
        ("._SUCCESS.crc", EntryKind.IGNORED),
        (".part-00000.crc", EntryKind.IGNORED),
        ("_metadata", EntryKind.IGNORED),
        ("_common_metadata", EntryKind.IGNORED),
        ("dt=2026-03-01_$folder$", EntryKind.IGNORED),
        ("_audit", EntryKind.IGNORED),
    ],
)
def test_a_name_tells_data_from_what_is_in_progress(name: str, kind: EntryKind) -> None:
    """The names are those that the writers leave. A hidden name that nobody explains counts as in progress."""
    assert kind_of(name, marker="_SUCCESS", ignored=["_audit"]) is kind


def test_another_marker_is_neither_data_nor_in_progress() -> None:
    """Spark's marker lies beside one of another name."""
    assert kind_of("_DONE", marker="_DONE") is EntryKind.MARKER
    assert kind_of("_SUCCESS", marker="_DONE") is EntryKind.IGNORED


def test_a_bracket_in_an_ignored_name_is_a_bracket() -> None:
    """Only the star and the question mark stand for others."""
    assert kind_of("_a[1]", marker="_SUCCESS", ignored=["_a[1]"]) is EntryKind.IGNORED
    assert kind_of("_a1", marker="_SUCCESS", ignored=["_a[1]"]) is EntryKind.STAGED


@given(st.text(min_size=1))
def test_what_readers_overlook_is_never_data(name: str) -> None:
    """So a marker vouches for what readers see."""
    if is_hidden(name):
        assert kind_of(name, marker="_SUCCESS") is not EntryKind.DATA


def test_the_values_of_a_path_are_unescaped() -> None:
    """As Flink and Hive write them. A level without a column has none."""
    assert partition_values("dt=2026-03-01/at=10%3A30/eu") == {"dt": "2026-03-01", "at": "10:30"}
    assert partition_values("2026/03") == {}
