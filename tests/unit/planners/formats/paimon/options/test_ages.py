"""How old, and for how long unknown, an orphan is."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.paimon.options.service_options import OrphansOptions, age_of_orphans, unknown_for
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
