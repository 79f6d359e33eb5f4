"""The budget that a table has of whose budget nothing is said: an ordinary clean never meets it."""

from __future__ import annotations

import pytest

from lakewarden.executors.contract import Plan
from lakewarden.service.config.daemon import BudgetSettings
from lakewarden.service.config.policies import budget_of
from lakewarden.service.rules.permits import excess

DEFAULT = budget_of(BudgetSettings())


def cleaned(files: int, *, left: int) -> str | None:
    """Return what the budget says to a clean that leaves so many files."""
    return excess(Plan(instant="1", files_to_delete=files, files_in_table=files + left), DEFAULT)


@pytest.mark.parametrize(
    ("files", "left", "what"),
    [
        (24, 5, "eight upserts of a merge-on-read table, compacted once (run: 24 of 29 files)"),
        (61, 2, "one file group, a delta commit a minute, compacted and cleaned each hour"),
        (1441, 2, "the same once a day"),
        (8640, 1, "an Iceberg table with a commit each ten seconds, compacted into one file a day"),
        (9_900, 100, "a table that was never cleaned: a hundred file groups in a hundred versions"),
        (99_000, 10_000, "ten thousand file groups, each written ten times since the last clean"),
    ],
)
def test_an_ordinary_clean_does_not_meet_the_default_budget(files: int, left: int, what: str) -> None:
    """What happens each hour is within it, and so is the first clean of a neglected table."""
    assert cleaned(files, left=left) is None, what


@pytest.mark.parametrize(("files", "left"), [(3, 0), (29, 0), (50_000, 1), (100_001, 10**6)])
def test_a_deletion_that_leaves_next_to_nothing_or_is_huge_waits_for_a_person(files: int, left: int) -> None:
    """A table is emptied once in its life, if ever."""
    assert cleaned(files, left=left) is not None
