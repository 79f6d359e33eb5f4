"""A policy of clean that keeps less than the properties of the table say."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.iceberg.deletion.refs import kept_more
from lakewarden.planners.formats.iceberg.options.service_options import CleanOptions
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Policy, Table, TableId
from lakewarden.planners.triggers import NumCommits

DAY = timedelta(days=1)
AGE, COUNT = "history.expire.max-snapshot-age-ms", "history.expire.min-snapshots-to-keep"
DAY_MS = 24 * 3600 * 1000


def said(properties: dict[str, str], **options: object) -> str | None:
    """Return what is said of a policy with these options."""
    policy = Policy(trigger=NumCommits(at_least=1), options=CleanOptions.model_validate(options))
    table = Table(id=TableId("t"), format="iceberg", location="/t", policies={Service.CLEAN: policy})
    found = kept_more(table, properties).get(Service.CLEAN)
    assert found is None or found.instant is None
    return None if found is None else found.says


def test_a_shorter_age_and_a_smaller_number_are_told() -> None:
    """The property that says more is named with its value."""
    assert said({AGE: str(7 * DAY_MS), COUNT: "50"}, max_snapshot_age=DAY, min_snapshots_to_keep=5) == (
        f"the policy keeps snapshots of 1d, where {AGE} says 7d and "
        f"the policy keeps at least 5 snapshots, where {COUNT} says 50"
    )
    assert said({AGE: str(2**63 - 1)}, max_snapshot_age=DAY) == (
        f"the policy keeps snapshots of 1d, where {AGE} says for ever"
    )


@pytest.mark.parametrize("stated", ["", "long", "-5", str(DAY_MS)])
def test_a_property_that_says_no_more_is_not_told(stated: str) -> None:
    """A property that is no number blocks the clean for another reason."""
    assert said({AGE: stated}, max_snapshot_age=DAY) is None


@given(st.dictionaries(st.sampled_from([AGE, COUNT]), st.integers(0, 2**70).map(str)))
def test_a_policy_without_a_retention_of_its_own_keeps_what_the_properties_say(properties: dict[str, str]) -> None:
    """Then the properties count."""
    assert said(properties) is None
