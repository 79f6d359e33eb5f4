"""Curves over time."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.service.reporting.picture.axis import TimeRange, steady
from lakewarden.service.reporting.picture.curves import (
    CurvePoint,
    Mark,
    Quantity,
    curve,
    of_bytes,
    of_counts,
    of_seconds,
    thinned,
)

BEGIN = datetime(2026, 5, 1, tzinfo=UTC)
DAY = TimeRange(begin=BEGIN, end=BEGIN + timedelta(days=1))
STEP = timedelta(minutes=5)


def _points(*values: float, gap: timedelta = STEP) -> list[CurvePoint]:
    return [CurvePoint(at=BEGIN + number * gap, value=value) for number, value in enumerate(values)]


def test_a_time_without_a_measurement_is_a_gap() -> None:
    """A line through it would claim what was never measured."""
    joined = curve(of_counts("pending"), _points(1, 2, 3), DAY, step=STEP)
    apart = curve(of_counts("pending"), _points(1, 2, 3, gap=3 * STEP), DAY, step=STEP)

    assert (joined.count("<polyline"), apart.count("<polyline")) == (1, 3)


def test_a_curve_says_in_words_what_it_shows() -> None:
    """For those who cannot see it: the first, the last and the greatest value."""
    picture = curve(of_bytes("bytes to rewrite"), _points(1024, 5 * 2**20, 2048), DAY, step=STEP)

    said = "bytes to rewrite from 2026-05-01 00:00 to 2026-05-02 00:00 UTC: 1.0 KiB at first, 2.0 KiB at last, at most"
    assert f'aria-label="{said} 5.0 MiB"' in picture
    assert "not measured" in curve(of_counts("pending"), [], DAY, step=STEP)


@pytest.mark.parametrize(
    ("quantity", "greatest", "label"),
    [
        (of_counts("pending"), 0, "2"),
        (of_counts("pending"), 40, "50"),
        (of_bytes("bytes"), 3 * 2**30, "5.0 GiB"),
        (of_seconds("age"), 61, "5m 0s"),
        (of_seconds("age"), 3 * 86400, "3d 0h"),
    ],
)
def test_the_top_line_is_a_round_value(quantity: Quantity, greatest: float, label: str) -> None:
    """In the unit of the quantity."""
    picture = curve(quantity, _points(0, greatest), DAY, step=STEP)
    assert re.findall(r'class="level"[^>]*>([^<]*)<', picture)[-1] == label


@given(
    values=st.lists(st.floats(0, 1e15, allow_nan=False), max_size=300),
    quantity=st.sampled_from([of_counts("a<b"), of_bytes("bytes"), of_seconds("age")]),
    minutes=st.integers(1, 400_000),
)
def test_every_curve_is_a_picture_within_its_frame(values: list[float], quantity: Quantity, minutes: int) -> None:
    """Whatever was measured, over a minute or a year: it is XML, and no point lies outside."""
    window = TimeRange(begin=BEGIN, end=BEGIN + timedelta(minutes=minutes))
    picture = ET.fromstring(curve(quantity, _points(*values), window, step=STEP))

    places = [pair for line in picture.iter() for pair in (line.get("points") or "").split()]
    pairs = [tuple(float(number) for number in pair.split(",")) for pair in places]
    assert all(0 <= x <= 480 and 0 <= y <= 120 for x, y in pairs)


def test_a_curve_of_many_points_keeps_its_peaks() -> None:
    """A page stays small, and a short backlog stays in sight."""
    points = _points(*(1000 if number == 777 else 1 for number in range(1000)))
    few, apart = thinned(points, step=STEP)

    assert len(few) <= 250
    assert max(point.value for point in few) == 1000
    assert curve(of_counts("pending"), few, DAY, step=apart).count("<polyline") == 1


def test_a_picture_until_now_stays_the_same_for_a_while() -> None:
    """A browser that asks again gets nothing new while nothing has happened. The present stays in the picture."""
    for length in (timedelta(minutes=1), timedelta(hours=1), timedelta(days=365)):
        moments = [BEGIN + length / 1000 * number for number in range(5)]
        windows = [steady(TimeRange(begin=moment - length, end=moment)) for moment in moments]
        assert len({window.end for window in windows}) <= 2
        assert all(window.length == length for window in windows)
        assert all(
            moment <= window.end <= moment + length / 60 for moment, window in zip(moments, windows, strict=True)
        )


def test_runs_are_marked_on_a_curve_and_told_of_in_words() -> None:
    """Whoever sees a drop sees what caused it. Marks at the same pixel are one line. One outside the window is none."""
    marks = [
        Mark(at=BEGIN + timedelta(hours=5), title="compaction <one>"),
        Mark(at=BEGIN + timedelta(hours=5, seconds=1), title="clean two"),
        Mark(at=BEGIN + timedelta(hours=12), title="clean three"),
        Mark(at=BEGIN - timedelta(hours=1), title="before"),
    ]
    picture = curve(of_counts("pending"), _points(1, 2), DAY, step=STEP, marks=marks)

    assert re.findall(r"<title>([a-z &;]+)</title>", picture) == ["compaction &lt;one&gt;; clean two", "clean three"]
    assert "3 runs marked" in picture
    assert "before" not in picture
