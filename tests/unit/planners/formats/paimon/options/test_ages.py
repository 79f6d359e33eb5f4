"""How old, and for how long unknown, an orphan is."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.paimon.options.service_options import (
    OrphansOptions,
    age_of_orphans,
    duration,
    size,
    unknown_for,
)
from lakewarden.planners.formats.paimon.options.table_options import PaimonTableOptions

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


def test_the_age_says_what_sets_it() -> None:
    """With the option that an operator may lower."""
    age = age_of_orphans(OrphansOptions(), PaimonTableOptions())
    assert str(age).startswith("7d (options.flink_restores, for a job that is restored")


# Durations and sizes, as Paimon reads them.


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1 h", 3600), ("1h", 3600), ("60 s", 60), ("10 min", 600), ("2 d", 172_800), ("1500", 1.5), ("5 ms", 0.005)],
)
def test_a_duration_has_a_unit_or_counts_milliseconds(text: str, seconds: float) -> None:
    """With a space or without one."""
    assert duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("text", "found"), [("128 mb", 2**27), ("1g", 2**30), ("1024", 1024), ("2 KB", 2048), ("8 mebibytes", 2**23)]
)
def test_a_size_has_a_unit_or_counts_bytes(text: str, found: int) -> None:
    """Units are powers of 1024."""
    assert size(text) == found


@pytest.mark.parametrize("text", ["", "h", "1 fortnight", "-1 s", "1.5 h", "1 h 2 s", "٣ s", "9" * 30])
def test_any_other_text_is_refused(text: str) -> None:
    """Nothing is guessed."""
    for read in (duration, size):
        with pytest.raises(ValueError, match="is no quantity"):
            read(text)


def test_a_duration_of_ages_is_a_century() -> None:
    """It can be taken off any time."""
    assert duration("999999999999999999 d") == timedelta(days=36_500)
