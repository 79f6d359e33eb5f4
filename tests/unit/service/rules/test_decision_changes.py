"""Which decisions are changes."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lakewarden.planners.model.decision import Blocked, Decision, Due, NotDue, is_change

SOON = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (NotDue(reason="3 of 5 commits"), NotDue(reason="4 of 5 commits")),
        (NotDue(reason="3 of 5 commits"), NotDue(reason="3 of 5 commits", again_at=SOON)),
        (Due(reason="5 of 5 commits"), Due(reason="12 of 5 commits", instant="20260101")),
    ],
)
def test_other_numbers_and_other_times_are_no_change(before: Decision, now: Decision) -> None:
    """A table with a commit each minute does not add a row each minute."""
    assert not is_change(before, now)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (None, NotDue(reason="nothing to do")),
        (NotDue(reason="5 commits"), Due(reason="5 commits")),
        (Due(reason="5 commits"), Blocked(reason="5 commits")),
        (Blocked(reason="paused"), Blocked(reason="in quarantine")),
        (Blocked(reason="paused"), Blocked(reason="paused", remedy="resume it")),
    ],
)
def test_another_kind_reason_or_remedy_is_a_change(before: Decision | None, now: Decision) -> None:
    """Whatever people would read differently later is kept."""
    assert is_change(before, now)
