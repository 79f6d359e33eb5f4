"""The picture of a timeline: valid XML with any names, bounded for any number of bars, nothing outside its frame."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.model.instant import Instant, InstantKind, RunId, Service, State, Timeline
from lakewarden.planners.model.table import TableId
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.page.timeline_picture import (
    SPANS,
    Bar,
    Hand,
    TimeRange,
    bars,
    described,
    drawn,
    fitting,
    lanes,
    ticks,
)

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
SVG = "{http://www.w3.org/2000/svg}"


def _instant(
    age: float, *, what: Service | InstantKind = InstantKind.WRITE, took: float | None = 1.0, **parts: object
) -> Instant:
    begun = NOW - timedelta(seconds=age)
    return Instant(
        time=f"{begun:%Y%m%d%H%M%S}",
        action="commit",
        stands_for=what,
        state=State.INFLIGHT if took is None else State.COMPLETED,
        requested_at=begun,
        completed_at=None if took is None else begun + timedelta(seconds=took),
        **parts,  # type: ignore[arg-type]
    )


def _run(state: RunState = RunState.SUCCEEDED, **parts: object) -> Run:
    return Run(
        id=RunId("r-1"),
        table=TableId("trips"),
        identity="x",
        service=Service.CLEAN,
        state=state,
        reason="due",
        requested_by="daemon",
        created_at=NOW - timedelta(seconds=90),
        **parts,  # type: ignore[arg-type]
    )


def _picture(found: Sequence[Bar], *, length: timedelta = SPANS["1h"]) -> ET.Element:
    return ET.fromstring(drawn(found, TimeRange(begin=NOW - length, end=NOW), now=NOW, link=lambda run: f"/runs/{run}"))


def test_writes_services_and_runs_have_lanes_in_this_order() -> None:
    """A person reads from the writers down to what we did."""
    timeline = Timeline(
        instants=(_instant(50), _instant(40, what=Service.CLEAN), _instant(30, what=InstantKind.SAVEPOINT))
    )
    found = bars(timeline, [_run(started_at=NOW - timedelta(seconds=80), ended_at=NOW)])

    assert lanes(found) == ["writes", "clean", "savepoints", "runs: clean"]


def test_the_three_hands_are_told_apart() -> None:
    """A writer's commit, a service of ours (by its author or by its run), and a service of another program."""
    ours = _instant(40, what=Service.CLEAN)
    timeline = Timeline(
        instants=(
            _instant(50),
            ours,
            _instant(30, what=Service.COMPACTION, author=RunId("r-9")),
            _instant(20, what=Service.CLUSTERING),
        )
    )
    found = bars(timeline, [_run(instant=ours.time)])

    assert [bar.hand for bar in found[:4]] == [Hand.WRITER, Hand.OURS, Hand.OURS, Hand.OTHER]
    assert [bar.run for bar in found[:4]] == [None, "r-1", "r-9", None]


def test_a_run_is_its_time_in_the_queue_and_its_time_at_work() -> None:
    """A run that never started only waited. A failed one is shown as failed."""
    started, ended = NOW - timedelta(seconds=60), NOW - timedelta(seconds=10)
    worked = bars(Timeline(instants=()), [_run(RunState.FAILED, started_at=started, ended_at=ended, outcome="away")])
    waited = bars(Timeline(instants=()), [_run(RunState.CANCELLED, ended_at=ended)])

    assert [(bar.waiting, bar.begun_at, bar.ended_at, bar.failed) for bar in worked] == [
        (True, NOW - timedelta(seconds=90), started, False),
        (False, started, ended, True),
    ]
    assert [(bar.waiting, bar.ended_at) for bar in waited] == [(True, ended)]


def test_what_has_not_ended_reaches_to_now() -> None:
    """It is drawn with another edge."""
    found = bars(Timeline(instants=(_instant(1800, took=None),)), [])
    _lane, rect = _picture(found).iter(f"{SVG}rect")

    assert "pending" in rect.attrib["class"].split()
    assert float(rect.attrib["x"]) + float(rect.attrib["width"]) == pytest.approx(1000, abs=0.2)


def test_a_bar_of_a_run_leads_to_its_page() -> None:
    """By a link that the keyboard does not stop at: the lists below the picture have the same links."""
    found = bars(Timeline(instants=()), [_run(started_at=NOW - timedelta(seconds=60), ended_at=NOW)])
    links = list(_picture(found).iter(f"{SVG}a"))

    assert {(link.attrib["href"], link.attrib["tabindex"]) for link in links} == {("/runs/r-1", "-1")}


@pytest.mark.long
def test_a_hundred_thousand_commits_are_a_small_picture() -> None:
    """Bars in the same pixels are one, with their number in its title."""
    timeline = Timeline(instants=tuple(_instant(age / 30) for age in range(100_000, 0, -1)))
    text = drawn(bars(timeline, []), TimeRange(begin=NOW - SPANS["1h"], end=NOW), now=NOW, link=str)

    assert len(text) < 200_000
    assert " of writes, the newest: commit" in text


_BARS = st.lists(
    st.builds(
        Bar,
        lane=st.sampled_from(["writes", "clean", "runs: clean"]),
        begun_at=st.floats(-1e8, 1e8).map(lambda age: NOW - timedelta(seconds=age)),
        ended_at=st.none() | st.floats(-1e8, 1e8).map(lambda age: NOW - timedelta(seconds=age)),
        hand=st.sampled_from(Hand),
        about=st.text(),
        failed=st.booleans(),
        waiting=st.booleans(),
        run=st.none() | st.text(min_size=1),
    ),
    max_size=30,
)


@given(_BARS, st.sampled_from(list(SPANS.values())))
def test_any_picture_is_valid_and_stays_in_its_frame(found: list[Bar], length: timedelta) -> None:
    """Names of tables and outcomes of runs come from outside. Clocks of writers go wrong, so bars may end before they
    begin.
    """
    picture = _picture(found, length=length)
    width, height = (float(part) for part in picture.attrib["viewBox"].split()[2:])

    for rect in picture.iter(f"{SVG}rect"):
        left, top, wide, high = (float(rect.attrib[name]) for name in ("x", "y", "width", "height"))
        assert 0 <= left <= left + wide <= width + 0.2
        assert 0 <= top <= top + high <= height


@given(st.floats(0.5, 1e9), st.floats(0, 1e9))
def test_an_axis_has_few_round_ticks_in_its_window(seconds: float, age: float) -> None:
    """In order, at equal distances."""
    end = NOW - timedelta(seconds=age)
    window = TimeRange(begin=end - timedelta(seconds=seconds), end=end)
    moments = [moment for moment, _ in ticks(window)]

    assert len(moments) <= 9
    assert all(window.begin <= moment <= window.end for moment in moments)
    assert len({later - sooner for sooner, later in pairwise(moments)}) <= 1


@given(st.lists(st.floats(0, 1e8), max_size=100))
def test_the_first_window_shows_the_newest_instants(ages: list[float]) -> None:
    """At least sixty of them, or all."""
    found = bars(Timeline(instants=tuple(_instant(age) for age in ages)), [])
    window = fitting(found, now=NOW)

    assert sum(window.shows(bar) for bar in found) >= min(60, len(found))
    assert window.length > timedelta(0)


def test_the_picture_is_described_in_words() -> None:
    """For a screen reader."""
    found = bars(Timeline(instants=(_instant(50), _instant(40), _instant(30, what=Service.CLEAN))), [])
    window = TimeRange(begin=NOW - SPANS["1m"], end=NOW)

    assert described(found, window) == (
        "Timeline from 2026-11-23 11:59:00 to 2026-11-23 12:00:00 UTC: 2 writes, 1 clean"
    )
