"""What a plan deletes beyond its table's budget."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.executors.contract import Plan
from lakewarden.planners.model.table import DeletionBudget
from lakewarden.service.rules.permits import excess, unapproved

_counts = st.integers(0, 10**6)


def a_plan(**counts: Any) -> Plan:
    """Return a plan with these counts."""
    return Plan(instant="00000030", **counts)


@pytest.mark.parametrize(
    ("plan", "budget", "said"),
    [
        (
            a_plan(files_to_delete=24_000),
            DeletionBudget(files=20_000),
            "would delete 24,000 files, more than the budget of 20,000",
        ),
        (
            a_plan(files_to_delete=45, files_in_table=100),
            DeletionBudget(percent=40),
            "would delete 45 of 100 files, more than the budget of 40 %",
        ),
        (
            a_plan(files_to_delete=45),
            DeletionBudget(percent=40),
            "would delete 45 files (the budget is 40 %, and the files of the table were not counted)",
        ),
        (
            a_plan(partitions_to_delete=101, files_to_delete=2),
            DeletionBudget(partitions=100, files=1),
            "would delete 2 files, more than the budget of 1 and 101 partitions, more than the budget of 100",
        ),
    ],
)
def test_people_read_how_much_would_be_deleted_and_what_the_budget_is(
    plan: Plan, budget: DeletionBudget, said: str
) -> None:
    """In numbers, for every limit that is passed."""
    assert excess(plan, budget) == said


@given(files=_counts, partitions=_counts, in_table=_counts)
def test_without_a_budget_nothing_is_too_much(files: int, partitions: int, in_table: int) -> None:
    """A limit that is not set limits nothing."""
    plan = a_plan(files_to_delete=files, partitions_to_delete=partitions, files_in_table=in_table)

    assert excess(plan, DeletionBudget()) is None


@given(files=_counts, allowed=_counts, in_table=st.integers(1, 10**6), percent=st.floats(0, 100))
def test_each_limit_is_the_most_that_may_be_deleted(files: int, allowed: int, in_table: int, percent: float) -> None:
    """The number itself is within the budget, one more is beyond it."""
    plan = a_plan(files_to_delete=files, partitions_to_delete=files, files_in_table=in_table)

    assert (excess(plan, DeletionBudget(files=allowed)) is not None) is (files > allowed)
    assert (excess(plan, DeletionBudget(partitions=allowed)) is not None) is (files > allowed)
    assert (excess(plan, DeletionBudget(percent=percent)) is not None) is (files * 100 > percent * in_table)


def test_a_plan_that_deletes_nothing_of_a_kind_need_not_say_so() -> None:
    """An archive has no files to delete, and a clean no partitions."""
    assert excess(a_plan(), DeletionBudget(files=0, percent=0, partitions=0)) is None


def test_a_first_clean_and_a_shorter_retention_are_said_with_their_numbers() -> None:
    """Each reason is a sentence of its own. A plan that deletes nothing needs nobody."""
    plan, free = a_plan(files_to_delete=1200, files_in_table=4000), DeletionBudget()
    assert unapproved(plan, free, first=True, shorter=None) == (
        "would delete 1,200 of 4,000 files in the first clean of the table"
    )
    both = unapproved(a_plan(files_to_delete=1), DeletionBudget(files=0), first=True, shorter="it kept more")
    assert both == (
        "would delete 1 files, more than the budget of 0; would delete 1 file in the first clean of the table; "
        "would delete 1 file, and it kept more"
    )
    assert unapproved(a_plan(files_to_delete=0), free, first=True, shorter="it kept more") is None
    assert unapproved(plan, free, first=False, shorter=None) is None
