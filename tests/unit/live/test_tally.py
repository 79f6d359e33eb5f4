"""The count of runs: a run that found nothing to do proves nothing, and no instant is completed twice."""

from __future__ import annotations

from datetime import datetime, timedelta

from lakewarden.service.http.schemas import RunBody
from live.report import LiveServiceTally
from live.tally import completed_twice, late_compactions, tallies
from tests.support.daemon.run_bodies import NOON, a_run_told


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


def at(minute: int) -> datetime:
    return NOON + timedelta(minutes=minute)


def test_a_compaction_may_wait_for_one_other_rewrite_that_begins_after_it_was_due() -> None:
    """One that gave way before takes its turn. A second one is told, and what began earlier or later is not."""
    compaction = a_run_told(id="c", created_at=at(5), started_at=at(9))
    earlier, later = (
        a_run_told(service="clustering", started_at=at(4)),
        a_run_told(service="clustering", started_at=at(9)),
    )
    first = a_run_told(id="l", service="log_compaction", started_at=at(6))
    second = a_run_told(id="k", service="clustering", started_at=at(8))
    clean = a_run_told(service="clean", started_at=at(7))

    assert late_compactions([compaction, earlier, later, first, clean]) == []
    told = ["compaction c waited in the queue while these began: log_compaction l, clustering k"]
    assert late_compactions([compaction, earlier, later, first, clean, second]) == told
    assert (
        late_compactions([a_run_told(id="c", created_at=at(5), started_at=None, ended_at=None), first, second]) == told
    )


def test_three_compactions_in_a_row_without_success_are_told() -> None:
    """Each that is withdrawn leaves more to the next one."""
    lost = [a_run_told(id=f"c{n}", state="CANCELLED", outcome="a write", created_at=at(n)) for n in range(4)]
    done = a_run_told(created_at=at(2))

    assert late_compactions([*lost[:2], done, *lost[3:]]) == []
    told = ["3 compactions in a row ended without success, the last one is c2: a write"]
    assert late_compactions(lost) == told
