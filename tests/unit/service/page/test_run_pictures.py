"""The pictures of stored runs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from xml.etree import ElementTree as ET

from lakewarden.planners.model.instant import Service
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.page.run_pictures import days_drawn, steps_drawn
from tests.support.values import NOW, a_run

DAY = timedelta(days=1)


def ended(state: RunState, *, days_ago: int = 0, service: Service = Service.COMPACTION, **figures: Any) -> Run:
    """Return a run that ended so many days ago."""
    at = NOW - days_ago * DAY
    return a_run(state=state, service=service, created_at=at, started_at=at, ended_at=at, figures=figures)


def bars(picture: str | None) -> list[tuple[str, str]]:
    """Return the class and the title of each bar of a picture, which must be well-formed."""
    assert picture is not None
    rects = [element for element in ET.fromstring(picture) if element.tag.endswith("rect")]
    return [(rect.get("class", ""), rect[0].text or "") for rect in rects]


def test_runs_are_counted_by_day_and_ending() -> None:
    """A run that stepped back, and one that a person cancelled, are no failures."""
    runs = [
        ended(RunState.SUCCEEDED),
        ended(RunState.SUCCEEDED),
        ended(RunState.FAILED),
        ended(RunState.YIELDED, days_ago=1),
        ended(RunState.CANCELLED, days_ago=1),
        a_run(state=RunState.RUNNING),
        ended(RunState.FAILED, days_ago=14),
    ]
    picture = days_drawn(runs, NOW, complete=True)

    yesterday, today = (NOW - DAY).date(), NOW.date()
    assert bars(picture) == [
        ("stopped", f"{yesterday}: 2 runs stopped"),
        ("succeeded", f"{today}: 2 runs succeeded"),
        ("failed", f"{today}: 1 run failed"),
    ]
    assert picture is not None
    assert 'aria-label="Runs of the last 14 days: 2 succeeded, 2 stopped, 1 failed"' in picture


def test_a_day_of_which_not_all_runs_are_known_is_left_out() -> None:
    """Half of its runs would look like a quiet day."""
    runs = [ended(RunState.SUCCEEDED), ended(RunState.FAILED, days_ago=1), ended(RunState.FAILED, days_ago=2)]

    assert len(bars(days_drawn(runs, NOW, complete=True))) == 3
    assert [title for _, title in bars(days_drawn(runs, NOW, complete=False))] == [
        f"{(NOW - DAY).date()}: 1 run failed",
        f"{NOW.date()}: 1 run succeeded",
    ]


def test_there_is_no_picture_while_there_is_nothing_to_show() -> None:
    """An empty picture says less than none."""
    assert days_drawn([], NOW, complete=True) is None
    assert days_drawn([a_run(state=RunState.QUEUED)], NOW, complete=True) is None
    assert steps_drawn(ended(RunState.SUCCEEDED)) is None
    assert steps_drawn(ended(RunState.SUCCEEDED, plan_seconds=1.0)) is None
    assert steps_drawn(ended(RunState.SUCCEEDED, plan_seconds=0, execute_seconds=0)) is None


def test_the_steps_of_a_run_are_one_bar() -> None:
    """Each has its share of the width."""
    picture = steps_drawn(ended(RunState.SUCCEEDED, plan_seconds=1, execute_seconds=2.0, commit_seconds=5.0))

    assert bars(picture) == [("plan", "plan: 1s"), ("execute", "execute: 2s"), ("commit", "commit: 5s")]
    assert picture is not None
    widths = [float(rect.get("width", "0")) for rect in ET.fromstring(picture)]
    assert widths == [42.0, 84.0, 210.0]
