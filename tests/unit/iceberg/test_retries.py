"""How often a commit is tried again: as the table's own properties ask."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.iceberg.metadata.retries import pauses


def test_by_default_it_is_four_times_each_after_twice_the_pause() -> None:
    """As Iceberg does it; what is no number counts for nothing."""
    assert list(pauses({})) == [0.1, 0.2, 0.4, 0.8]
    assert list(pauses({"commit.retry.num-retries": "many"})) == [0.1, 0.2, 0.4, 0.8]


def test_a_table_may_ask_for_more_or_none() -> None:
    """Of its properties each has its meaning."""
    assert list(pauses({"commit.retry.num-retries": "0"})) == []
    patient = {"commit.retry.num-retries": "6", "commit.retry.min-wait-ms": "1000", "commit.retry.max-wait-ms": "3000"}
    assert list(pauses(patient)) == [1, 2, 3, 3, 3, 3]
    assert list(pauses({**patient, "commit.retry.total-timeout-ms": "6500"})) == [1, 2, 3]


NUMBERS = st.integers(0, 2**63 - 1).map(str)


@given(st.dictionaries(st.sampled_from(["num-retries", "min-wait-ms", "max-wait-ms", "total-timeout-ms"]), NUMBERS))
def test_no_property_makes_it_wait_longer_than_the_table_allows(asked: dict[str, str]) -> None:
    """Whatever is written there: the pauses end, and their sum is within the timeout."""
    found = list(pauses({f"commit.retry.{key}": value for key, value in asked.items()}))
    assert len(found) <= min(int(asked.get("num-retries", "4")), 1000)
    assert sum(found) * 1000 <= int(asked.get("total-timeout-ms", "1800000")) * 1.0001
