"""The suite's report has the demo's keys and more. Each promise is checked by itself."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from lakewarden.demo.report import Range
from live.journey import Journey
from live.report import Failure, LiveReaderTally, LiveReport, LiveServiceTally, LiveWriterTally, TimeTravel, tell

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
