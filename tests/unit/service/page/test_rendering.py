"""What a page says of a value."""

from __future__ import annotations

from typing import get_args

import pytest

from lakewarden.planners.model.decision import Decision
from lakewarden.service.page.rendering import figure, kind


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("bytes_rewritten", 11011, "10.8 KiB"),
        ("deleted_bytes", 7, "7 B"),
        ("plan_seconds", 11.649, "11.6s"),
        ("commit_seconds", 0.386, "386ms"),
        ("core_seconds", 7265.0, "2h 1m"),
        ("files_rewritten", 1234567, "1,234,567"),
        ("file_groups", 3, "3"),
        ("complete", True, True),
        ("instant", "20261123", "20261123"),
        ("bytes_rewritten", None, None),
    ],
)
def test_a_figure_has_the_unit_of_its_name(name: str, value: object, said: object) -> None:
    """Bytes and seconds are readable. Whatever is no number stays as it is."""
    assert figure(value, name) == said


def test_each_kind_of_decision_has_words() -> None:
    """Also one that is new: a page must not fail for it."""
    words = [kind(one.__name__) for one in get_args(Decision)]
    assert words == ["due", "not due", "due, not run in mode plan", "blocked", "does not apply"]
