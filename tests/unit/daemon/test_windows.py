"""Windows on the road: a run that was queued while its window was open plans nothing once it has closed."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from lakewarden.executors.contract import Step
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Policy
from lakewarden.planners.model.window import Window
from lakewarden.planners.triggers import NumCommits
from lakewarden.service.model.run import RunState
from tests.support.road import START, TRIPS, Road

MINUTE = timedelta(minutes=1)
AT_FIRST = {
    Service.COMPACTION: Policy(
        trigger=NumCommits(at_least=3), window=Window(start=START.time(), end=(START + MINUTE).time())
    )
}


def waits_beyond_the_window(road: Road) -> None:
    """Let the run stand at its first question until its window has closed."""
    write = road.lake.begin_write()
    road.inbox.mark_dirty(TRIPS)
    road.until(lambda: road.at(Step.PLAN))
    road.clock.advance(MINUTE)
    road.lake.commit_write(write)


def test_a_run_that_comes_too_late_plans_nothing_and_comes_again_in_the_next_window(tmp_path: Path) -> None:
    """It steps back; a day later the table is compacted."""
    road = Road(tmp_path, policies=AT_FIRST)
    road.write(3)
    waits_beyond_the_window(road)
    road.until(lambda: road.states() == [RunState.CANCELLED])
    assert road.runs()[0].outcome == "its window has closed"
    road.for_a_while(10 * MINUTE)
    assert len(road.runs()) == 1

    road.clock.advance(timedelta(days=1) - 12 * MINUTE)
    road.until(lambda: road.states()[-1] is RunState.SUCCEEDED)


def test_what_a_person_asked_for_is_not_too_late(tmp_path: Path) -> None:
    """A request skips the window, also where its run has to wait."""
    road = Road(tmp_path, policies=AT_FIRST)
    road.lake.write()
    road.status.request_run(TRIPS, Service.COMPACTION, by="a person")
    waits_beyond_the_window(road)

    road.until(lambda: road.states() == [RunState.SUCCEEDED])
