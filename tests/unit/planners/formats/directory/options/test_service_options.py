"""What may be set for partition commit, and what is refused by name."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from lakewarden.planners.formats.directory.options import (
    CommitAct,
    DirectoryTableOptions,
    PartitionCommitOptions,
)
from lakewarden.planners.partitions import time_pattern


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({"policy": "metastore,metastore"}, "success-file"),
        ({"policy": ["metastore"]}, "success-file"),
        ({"policy": "custom"}, "no command of a user"),
        ({"policy": "success-file,custom"}, "no command of a user"),
        ({"policy": "mail"}, "success-file"),
        ({"success_file_name": "SUCCESS"}, "not a hidden file name"),
        ({"success_file_name": "_a/b"}, "not a hidden file name"),
        ({"success_file_name": ".."}, "not a hidden file name"),
        ({"success_file_name": "_" * 256}, "255 bytes"),
        ({"timestamp_formatter": "yyyyMM"}, "names no day"),
        ({"timestamp_formatter": "yyyy-MM-dd'T"}, "a quote without its end"),
        ({"timestamp_formatter": "yy-MM-dd"}, "the century open"),
        ({"timestamp_formatter": "yyyy-MM-dd a"}, "holds the letter a"),
        ({"timestamp_formatter": "yyyy-MM-dd dd"}, "names the day twice"),
        ({"time_zone": "Mars/Base"}, "not an IANA time zone"),
        ({"command": "rm"}, "Extra inputs"),
    ],
)
def test_what_cannot_be_done_is_refused(written: dict[str, Any], said: str) -> None:
    """At the start of the daemon, and with the reason."""
    with pytest.raises(ValidationError, match=said):
        PartitionCommitOptions.model_validate(written)


@pytest.mark.parametrize(
    ("written", "acts"),
    [
        ("success-file", [CommitAct.SUCCESS_FILE]),
        ("metastore", [CommitAct.METASTORE]),
        ("metastore, success-file", [CommitAct.METASTORE, CommitAct.SUCCESS_FILE]),
        ("success-file,metastore", [CommitAct.SUCCESS_FILE, CommitAct.METASTORE]),
    ],
)
def test_a_policy_is_written_as_flinks_and_keeps_its_order(written: str, acts: list[CommitAct]) -> None:
    """Flink carries the policies out in the order in which they are written."""
    assert list(PartitionCommitOptions.model_validate({"policy": written}).policy.acts) == acts


@pytest.mark.parametrize("name", ["", "a/b", "*", "**?"])
def test_an_ignored_name_is_the_name_of_some_files_and_not_of_all(name: str) -> None:
    """A pattern that fits every name would hide every part in progress."""
    with pytest.raises(ValidationError, match="not a file name pattern"):
        DirectoryTableOptions(ignored=(name,))


@pytest.mark.parametrize("pattern", ["yyyyMd", "yMd", "yyyyMMddH", "yyyy-Md", "dMMyyyy", "yyyyMMddHms"])
def test_a_pattern_that_leaves_open_where_a_number_ends_is_refused(pattern: str) -> None:
    """Java refuses most texts of it, and a deletion must not guess."""
    with pytest.raises(ValueError, match="leaves open where"):
        time_pattern(pattern)


def test_a_pattern_reads_what_javas_would() -> None:
    """Several letters are so many digits, one letter is any number, and text stands in quotes."""
    found = time_pattern("yyyyMMdd'T'HH").fullmatch("20260301T07")
    assert found is not None
    assert found.groupdict() == {"year": "2026", "month": "03", "day": "01", "hour": "07"}
    assert time_pattern("yyyy-M-d").fullmatch("2026-3-1")
    assert time_pattern("yyyy-MM-dd").fullmatch("2026-3-1") is None
    assert time_pattern("yyyy''MM''dd").fullmatch("2026'03'01")
