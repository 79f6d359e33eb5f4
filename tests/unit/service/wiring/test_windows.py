"""Windows in the daemon: a run that was queued while its window was open plans nothing once it has closed."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from lakewarden.planners.model.instant import Service, Step
from lakewarden.planners.model.table import Policy
from lakewarden.planners.model.window import Window
from lakewarden.planners.triggers import NumCommits
from lakewarden.service.model.run import RunState
from tests.support.daemon.daemon_harness import START, TRIPS, DaemonHarness

MINUTE = timedelta(minutes=1)
AT_FIRST = {
    Service.COMPACTION: Policy(
        trigger=NumCommits(at_least=3), window=Window(start=START.time(), end=(START + MINUTE).time())
    )
}


def waits_beyond_the_window(harness: DaemonHarness) -> None:
    """Let the run stand at its first question until its window has closed."""
    write = harness.lake.begin_write()
    harness.commands.mark_dirty(TRIPS)
    harness.until(lambda: harness.at(Step.PLAN))
    harness.clock.advance(MINUTE)
    harness.lake.commit_write(write)


def test_a_run_that_comes_too_late_plans_nothing_and_comes_again_in_the_next_window(tmp_path: Path) -> None:
    """It steps back; a day later the table is compacted."""
    harness = DaemonHarness(tmp_path, policies=AT_FIRST)
    harness.write(3)
    waits_beyond_the_window(harness)
    harness.until(lambda: harness.states() == [RunState.YIELDED])
    assert harness.runs()[0].outcome == "its window has closed"
    harness.for_a_while(10 * MINUTE)
    assert len(harness.runs()) == 1

    harness.clock.advance(timedelta(days=1) - 12 * MINUTE)
    harness.until(lambda: harness.states()[-1] is RunState.SUCCEEDED)


def test_what_a_person_asked_for_is_not_too_late(tmp_path: Path) -> None:
    """A request skips the window, also where its run has to wait."""
    harness = DaemonHarness(tmp_path, policies=AT_FIRST)
    harness.lake.write()
    harness.status.commands.request_run(TRIPS, Service.COMPACTION, by="a person")
    waits_beyond_the_window(harness)

    harness.until(lambda: harness.states() == [RunState.SUCCEEDED])
