"""A commit is repeated as often as the table's own properties say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.iceberg.metadata.metadata import pauses, until_it_does_not_yield
from lakewarden.planners.model.errors import PermanentError, YieldError


def test_by_default_it_is_four_times_each_after_twice_the_pause() -> None:
    """Iceberg does the same. A property that is no number is ignored."""
    assert list(pauses({})) == [0.1, 0.2, 0.4, 0.8]
    assert list(pauses({"commit.retry.num-retries": "many"})) == [0.1, 0.2, 0.4, 0.8]


def test_a_table_may_ask_for_more_or_none() -> None:
    """Each of the properties has its own effect."""
    assert list(pauses({"commit.retry.num-retries": "0"})) == []
    patient = {"commit.retry.num-retries": "6", "commit.retry.min-wait-ms": "1000", "commit.retry.max-wait-ms": "3000"}
    assert list(pauses(patient)) == [1, 2, 3, 3, 3, 3]
    assert list(pauses({**patient, "commit.retry.total-timeout-ms": "6500"})) == [1, 2, 3]


NUMBERS = st.integers(0, 2**63 - 1).map(str)


@given(st.dictionaries(st.sampled_from(["num-retries", "min-wait-ms", "max-wait-ms", "total-timeout-ms"]), NUMBERS))
def test_no_property_makes_it_wait_longer_than_the_table_allows(asked: dict[str, str]) -> None:
    """For any values the retries end, and the sum of the pauses is within the timeout."""
    found = list(pauses({f"commit.retry.{key}": value for key, value in asked.items()}))
    assert len(found) <= min(int(asked.get("num-retries", "4")), 1000)
    assert sum(found) * 1000 <= int(asked.get("total-timeout-ms", "1800000")) * 1.0001


@pytest.mark.parametrize(("retries", "tries"), [("0", 1), ("2", 3), ("7", 8)])
def test_what_yields_is_tried_again_as_often_as_the_table_allows(retries: str, tries: int) -> None:
    """It waits for the table's own pauses, and yields after the last."""
    properties = {"commit.retry.num-retries": retries, "commit.retry.min-wait-ms": "50"}
    tried, waited = list[int](), list[float]()

    def yields() -> None:
        tried.append(1)
        raise YieldError("others committed")

    with pytest.raises(YieldError, match="others committed"):
        until_it_does_not_yield(yields, properties, pause=waited.append)
    assert len(tried) == tries
    assert waited == [0, *pauses(properties)]


def test_what_succeeds_or_fails_is_not_tried_again() -> None:
    """Only a conflict with a faster writer is a reason to repeat."""
    tried = list[int]()

    def succeeds_at_last() -> None:
        tried.append(1)
        if len(tried) < 3:
            raise YieldError("others committed")

    until_it_does_not_yield(succeeds_at_last, {}, pause=lambda _: None)
    assert len(tried) == 3

    def fails() -> None:
        raise PermanentError("broken")

    with pytest.raises(PermanentError, match="broken"):
        until_it_does_not_yield(fails, {}, pause=lambda wait: tried.append(int(wait * 1000)))
    assert tried == [1, 1, 1, 0]
