"""Durations and sizes, as Paimon reads them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from lakewarden.planners.formats.paimon.options.service_options import duration, size


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
