"""The suite's report has the demo's keys and more. Each promise is checked by itself."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from rich.console import Console

from lakewarden.demo.report import Range
from lakewarden.demo.writers.orders import Batch, Ending
from lakewarden.service.http.schemas import RunBody
from live.blame import caused_by_us
from live.journey import Journey
from live.report import Failure, LiveReaderTally, LiveReport, LiveServiceTally, LiveWriterTally, TimeTravel, tell
from live.tally import completed_twice, late_compactions, tallies
from tests.support.daemon.answers import NOON, a_run_told

GOOD = LiveReport(
    table_type="mor",
    writer_kind="upsert",
    seconds=180.0,
    wanted_commits=30,
    enabled=("compaction", "clean"),
    each_succeeds=3,
    rows_expected=200,
    rows_found=200,
    rows_wrong=0,
    writer=LiveWriterTally(commits=31, failures=0, caused_by_us=0),
    reader=LiveReaderTally(queries=100, failures=0),
    services={"compaction": LiveServiceTally(succeeded=4, cancelled=2), "clean": LiveServiceTally(succeeded=3, idle=5)},
    counted={"log_files": Range(peak=20, end=0), "file_versions": Range(peak=30, end=20)},
    time_travel=TimeTravel(instants=9),
)
WRONG = Journey(instant="20260101120000000", operation="UPSERT", wrong=2)


def test_the_report_has_the_demos_keys_and_says_who_caused_the_writers_failures(tmp_path: Path) -> None:
    """Programs read it."""
    GOOD.write(tmp_path / "report.json")

    found = json.loads((tmp_path / "report.json").read_text())

    assert {"rows_expected", "rows_found", "rows_wrong", "reader", "log_files", "file_versions"} <= found.keys()
    assert found["writer"] == {"commits": 31, "failures": 0, "reasons": [], "caused_by_us": 0, "failed": []}
    assert found["reader"] == {"queries": 100, "failures": 0, "asked_again": 0}
    assert found["services"]["compaction"] == {"succeeded": 4, "failed": 0, "cancelled": 2, "idle": 0}


def test_a_good_run_has_no_shortcomings() -> None:
    """A run that yielded to a writer is none, nor is one that found nothing to do."""
    assert GOOD.shortcomings() == []


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(replace(GOOD, rows_wrong=1), id="a wrong row"),
        pytest.param(replace(GOOD, writer=replace(GOOD.writer, failures=1)), id="a failed commit"),
        pytest.param(replace(GOOD, writer=replace(GOOD.writer, commits=29)), id="too few commits"),
        pytest.param(replace(GOOD, reader=LiveReaderTally(queries=9, failures=1)), id="a failed query"),
        pytest.param(replace(GOOD, enabled=("clean", "clustering")), id="a service that never succeeded"),
        pytest.param(
            replace(GOOD, services={**GOOD.services, "clean": LiveServiceTally(succeeded=2, idle=9)}),
            id="a service that succeeded twice",
        ),
        pytest.param(replace(GOOD, time_travel=TimeTravel(instants=0)), id="no time travel"),
        pytest.param(replace(GOOD, time_travel=TimeTravel(instants=9, wrong=[WRONG])), id="a wrong instant"),
        pytest.param(replace(GOOD, twice=["20260101120000000"]), id="an instant completed twice"),
        pytest.param(replace(GOOD, failed_runs=["clean 7: no such table"]), id="a run of ours that failed"),
        pytest.param(replace(GOOD, doubled_micro_batches=[7]), id="a micro-batch written twice"),
        pytest.param(replace(GOOD, daemon_exit_code=-9), id="a daemon that had to be killed"),
        pytest.param(replace(GOOD, processes_left=["77 java"]), id="a process left behind"),
        pytest.param(replace(GOOD, errors=["the writer is gone"]), id="trouble on the way"),
    ],
)
def test_whatever_was_promised_and_not_shown_is_a_shortcoming(bad: LiveReport) -> None:
    """Each promise is checked by itself."""
    assert len(bad.shortcomings()) == 1


def test_people_are_told_of_every_failure_and_every_wrong_instant() -> None:
    """The report quotes the writer's exception literally."""
    failed = Failure(at="2026-01-01T12:00:00+00:00", message="HoodieWriteConflictException: [a] lost to [b]")
    bad = replace(
        GOOD,
        writer=LiveWriterTally(commits=31, failures=1, caused_by_us=1, failed=[failed]),
        time_travel=TimeTravel(instants=9, wrong=[WRONG]),
    )
    out = io.StringIO()

    tell(Console(file=out, width=200), bad)

    for words in ("1 failed, 1 of them caused by us", failed.message, WRONG.instant, "1 of 9 instants"):
        assert words in out.getvalue()


# The count of runs: a run that found nothing to do proves nothing, and no instant is completed twice.


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


def second(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def test_a_compaction_may_wait_for_one_other_rewrite_that_begins_after_it_was_due() -> None:
    """One that gave way before takes its turn. A second one is told, and what began earlier or later is not."""
    compaction = a_run_told(id="c", created_at=at(5), started_at=at(9))
    waiting = a_run_told(id="c", created_at=at(5), started_at=None, ended_at=None)
    beside = [a_run_told(service="clustering", started_at=at(minute)) for minute in (4, 9)]
    beside.append(a_run_told(service="clean", started_at=at(7)))
    first = a_run_told(id="l", service="log_compaction", started_at=at(6))
    second = a_run_told(id="k", service="clustering", started_at=at(8))

    assert late_compactions([compaction, *beside, first]) == []
    told = ["compaction c waited in the queue while these began: log_compaction l, clustering k"]
    assert late_compactions([compaction, *beside, first, second]) == told
    assert late_compactions([waiting, first, second]) == told


def test_three_compactions_in_a_row_without_success_are_told() -> None:
    """Each that is withdrawn leaves more to the next one."""
    lost = [a_run_told(id=f"c{n}", state="CANCELLED", outcome="a write", created_at=at(n)) for n in range(4)]
    done = a_run_told(created_at=at(2))

    assert late_compactions([*lost[:2], done, *lost[3:]]) == []
    told = ["3 compactions in a row ended without success, the last one is c2: a write"]
    assert late_compactions(lost) == told


# A failed commit counts as caused by Lakewarden if a run of Lakewarden was within a minute of it.


def failed(begun: float, answered: float | None) -> Batch:
    return Batch(
        number=1,
        rows=(),
        begun=second(begun),
        ending=Ending.OPEN if answered is None else Ending.FAILED,
        answered=None if answered is None else second(answered),
    )


def run_between(started: float | None, ended: float | None) -> RunBody:
    return a_run_told(
        state="RUNNING" if ended is None else "SUCCEEDED",
        started_at=None if started is None else second(started),
        ended_at=None if ended is None else second(ended),
    )


@pytest.mark.parametrize(
    ("batch", "ours", "blamed"),
    [
        pytest.param(failed(10, 12), run_between(11, 11.5), True, id="inside it"),
        pytest.param(failed(100, 102), run_between(0, 50), True, id="ended 50 s before it began"),
        pytest.param(failed(100, 102), run_between(0, 39), False, id="ended 61 s before it began"),
        pytest.param(failed(0, 10), run_between(69, 80), True, id="began 59 s after it had failed"),
        pytest.param(failed(0, 10), run_between(71, 80), False, id="began 61 s after it had failed"),
        pytest.param(failed(500, 510), run_between(0, None), True, id="still running"),
        pytest.param(failed(0, None), run_between(900, 901), True, id="never answered"),
        pytest.param(failed(0, 10), run_between(None, 5), False, id="never started"),
    ],
)
def test_whatever_ran_within_a_minute_of_a_failure_is_blamed(batch: Batch, ours: RunBody, blamed: bool) -> None:
    """The run may be before it, beside it, or just after it."""
    assert bool(caused_by_us([batch], [ours])) is blamed
    assert not caused_by_us([batch], [])
