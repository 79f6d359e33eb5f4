"""The age of a file before it can count as an orphan."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.iceberg.options.service_options import (
    OrphansOptions,
    age_of_orphans,
    least_age_of_orphans,
)
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions

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
