"""The count of runs: a run that found nothing to do proves nothing, and no instant is completed twice."""

from __future__ import annotations

from lakewarden.service.http.schemas import RunBody
from live.report import LiveServiceTally
from live.tally import completed_twice, tallies
from tests.support.daemon.run_bodies import a_run_told


def run(service: str, state: str, outcome: str = "", instant: str | None = None) -> RunBody:
    return a_run_told(service=service, state=state, instant=instant, outcome=outcome)


def test_every_ending_has_its_count_and_idle_runs_are_no_successes() -> None:
    """If a clean finds nothing to delete, it has not shown that it can delete."""
    runs = [
        run("clean", "SUCCEEDED", "completed"),
        run("clean", "SUCCEEDED", "nothing to do: no plan"),
        run("clean", "FAILED", "no lock"),
        run("compaction", "CANCELLED", "a writer was in the way"),
        run("compaction", "RUNNING"),
    ]

    assert tallies(runs) == {
        "clean": LiveServiceTally(succeeded=1, failed=1, idle=1),
        "compaction": LiveServiceTally(cancelled=1),
    }


def test_an_instant_that_two_runs_have_completed_is_told() -> None:
    """A plan is executed once, whichever client made it."""
    done = [run("compaction", "SUCCEEDED", "completed", instant) for instant in ("1", "2", "2")]

    assert completed_twice([*done, run("compaction", "FAILED", "", "1"), run("archive", "SUCCEEDED")]) == ["2"]
