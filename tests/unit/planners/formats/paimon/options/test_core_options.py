"""The options of a table, with Paimon's defaults."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.paimon.options.core_options import BucketMode, CoreOptions, core_options
from lakewarden.planners.formats.paimon.options.service_options import (
    OrphansOptions,
    age_of_orphans,
    duration,
    size,
    unknown_for,
)
from lakewarden.planners.formats.paimon.options.table_options import PaimonTableOptions

_MEBIBYTE = 2**20


def read(
    raw: Mapping[str, str], *, version: int = 3, has_key: bool = True, key_has_partition: bool = True
) -> CoreOptions:
    return core_options(raw, version=version, has_key=has_key, key_has_partition=key_has_partition)


def test_without_options_a_table_has_the_defaults() -> None:
    """Those of 0.9.0 and 1.3.1 are the same."""
    found = read({})
    assert (found.bucket, found.write_only, found.trigger, found.levels) == (-1, False, 5, 6)
    assert (found.retained_for, found.retained_least) == (timedelta(hours=1), 10)
    assert found.small == int(128 * _MEBIBYTE * 0.7)
    assert read({}, has_key=False).small == int(256 * _MEBIBYTE * 0.7)
    assert [read({}, version=version).bucket_mode for version in (1, 2)] == [BucketMode.FIXED, BucketMode.DYNAMIC]


@pytest.mark.parametrize(
    ("bucket", "has_key", "key_has_partition", "mode"),
    [
        ("3", True, True, BucketMode.FIXED),
        ("3", False, True, BucketMode.FIXED),
        ("-1", True, True, BucketMode.DYNAMIC),
        ("-1", True, False, BucketMode.CROSS_PARTITION),
        ("-1", False, False, BucketMode.UNAWARE),
        ("-2", True, True, BucketMode.POSTPONED),
    ],
)
def test_the_mode_of_the_buckets(bucket: str, mode: BucketMode, *, has_key: bool, key_has_partition: bool) -> None:
    """A key without the partition may move from one partition to another."""
    assert read({"bucket": bucket}, has_key=has_key, key_has_partition=key_has_partition).bucket_mode is mode


def test_an_older_key_of_an_option_is_known() -> None:
    assert read({"write.compaction-skip": "true"}).write_only
    assert not read({"write.compaction-skip": "true", "write-only": "FALSE"}).write_only


@pytest.mark.parametrize(
    "raw",
    [{"bucket": "many"}, {"write-only": "yes"}, {"target-file-size": "big"}, {"snapshot.time-retained": "1 year"}],
)
def test_a_value_that_paimon_does_not_take_is_refused_by_its_key(raw: dict[str, str]) -> None:
    """No default is put in its place."""
    with pytest.raises(ValueError, match=next(iter(raw))):
        read(raw)


_AGGREGATION = {"merge-engine": "aggregation", "fields.a.aggregate-function": "sum"}
_PARTIAL = {"merge-engine": "partial-update", "fields.g.sequence-group": "a"}


@pytest.mark.parametrize(
    "raw",
    [
        {"merge-engine": "aggregation"},
        {**_AGGREGATION, "fields.a.aggregate-function": "collect"},
        {"merge-engine": "Aggregation", "fields.default-aggregate-function": "last_value"},
        {**_AGGREGATION, "aggregation.remove-record-on-delete": "true"},
        {**_AGGREGATION, "sequence.field": "a"},
        {**_PARTIAL, "fields.a.aggregate-function": "sum"},
        {**_PARTIAL, "fields.default-aggregate-function": "last_non_null_value"},
        {**_PARTIAL, "partial-update.remove-record-on-sequence-group": "g"},
        {"merge-engine": "partial-update", "sequence.field": "a"},
        {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
    ],
    ids=str,
)
def test_a_merge_with_retractions_or_in_another_order_needs_the_oldest_row(raw: dict[str, str]) -> None:
    """Each of them was wrong after a minor compaction by Paimon 1.3.1."""
    assert core_options(raw, version=3, has_key=True, key_has_partition=True, values={"a": "INT"}).needs_oldest


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"sequence.field": "a"},
        {"merge-engine": "first-row"},
        _AGGREGATION,
        {"merge-engine": "aggregation", "fields.default-aggregate-function": "max"},
        {"merge-engine": "partial-update"},
        _PARTIAL,
    ],
    ids=str,
)
def test_a_merge_with_one_result_in_whatever_parts_does_not_need_the_oldest_row(raw: dict[str, str]) -> None:
    """Each of them was right after a minor compaction by Paimon 1.3.1. A sum of fractions has another last digit."""
    assert not core_options(raw, version=3, has_key=True, key_has_partition=True, values={"a": "INT"}).needs_oldest
    of_fractions = core_options(raw, version=3, has_key=True, key_has_partition=True, values={"a": "DOUBLE"})
    assert of_fractions.needs_oldest is ("sum" in raw.values())


# How old, and for how long unknown, an orphan is.


HOURS = st.integers(0, 24 * 90).map(lambda hours: timedelta(hours=hours))


@given(st.none() | HOURS, HOURS, HOURS, HOURS)
def test_no_option_makes_an_orphan_of_what_a_restored_job_may_commit(
    older_than: timedelta | None, unknown: timedelta, outage: timedelta, restores: timedelta
) -> None:
    """Nor of what a commit under way has written, nor of what was seen in one listing alone within an outage."""
    options = OrphansOptions(older_than=older_than, unknown_for=unknown)
    table = PaimonTableOptions(longest_outage=outage, flink_restores=restores)
    age = age_of_orphans(options, table)
    assert age.age >= max(outage, restores, timedelta(days=1), timedelta(days=3) if older_than is None else older_than)
    assert unknown_for(options, table) >= max(unknown, outage)


# Durations and sizes, as Paimon reads them.


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1 h", 3600),
        ("1h", 3600),
        ("60 s", 60),
        ("10 min", 600),
        ("2 d", 172_800),
        ("1500", 1.5),
        ("5 ms", 0.005),
        ("9" * 18 + " d", 36_500 * 86_400),
    ],
)
def test_a_duration_has_a_unit_or_counts_milliseconds(text: str, seconds: float) -> None:
    assert duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("text", "found"), [("128 mb", 2**27), ("1g", 2**30), ("1024", 1024), ("2 KB", 2048), ("8 mebibytes", 2**23)]
)
def test_a_size_has_a_unit_or_counts_bytes(text: str, found: int) -> None:
    """Units are powers of 1024."""
    assert size(text) == found


@pytest.mark.parametrize("text", ["", "h", "1 fortnight", "-1 s", "1.5 h", "1 h 2 s", "٣ s", "9" * 30])
def test_any_other_text_is_refused(text: str) -> None:
    for read in (duration, size):
        with pytest.raises(ValueError, match="is not a quantity"):
            read(text)
