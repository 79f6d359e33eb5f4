"""The report on several writers: conflicts between the writers do not count, and everything else is a shortcoming."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from lakewarden.demo.report import Range
from live.hudi.several.blame import Blame, Told
from live.hudi.several.report import SeveralReport
from live.report import LiveReaderTally, LiveServiceTally, LiveWriterTally, TimeTravel, tell

VERDICT = Blame(
    writer="b",
    batch=9,
    begun="2026-01-01T12:00:00+00:00",
    instant="20260101120000000",
    ours=False,
    why="it lost to deltacommit 20260101115959000",
)
GOOD = SeveralReport(
    table_type="mor",
    writer_kind="conflicting",
    seconds=180.0,
    wanted_commits=60,
    enabled=("compaction",),
    each_succeeds=3,
    rows_expected=200,
    rows_found=200,
    rows_wrong=0,
    writer=LiveWriterTally(commits=61, failures=1, caused_by_us=0),
    writers={"writer": LiveWriterTally(commits=31, failures=0, caused_by_us=0)},
    reader=LiveReaderTally(queries=100, failures=0),
    services={"compaction": LiveServiceTally(succeeded=4)},
    counted={"log_files": Range(peak=20, end=0)},
    time_travel=TimeTravel(instants=9),
    table_version=8,
    releases=("1.0.2", "1.1.1"),
    verdicts=[VERDICT],
    told=[Told(instant=VERDICT.instant or "", ours=False, reason="its heartbeat is gone")],
    disagreements=[],
    left_pending=[],
    unmerged_peak=24,
    late=[],
    left_out=2,
    wrong_by_spark=0,
)


def test_a_conflict_of_two_writers_is_no_shortcoming() -> None:
    """It is counted and reported."""
    assert GOOD.shortcomings() == []


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(replace(GOOD, rows_wrong=1), id="a wrong row"),
        pytest.param(replace(GOOD, wrong_by_spark=1), id="a row that is wrong by the second reader"),
        pytest.param(replace(GOOD, writer=replace(GOOD.writer, caused_by_us=1)), id="a failure of ours"),
        pytest.param(replace(GOOD, writer=replace(GOOD.writer, commits=59)), id="too few commits"),
        pytest.param(replace(GOOD, reader=LiveReaderTally(queries=9, failures=1)), id="a failed query"),
        pytest.param(replace(GOOD, disagreements=["the daemon does not tell of it"]), id="another story"),
        pytest.param(replace(GOOD, left_pending=["20260101120000000 deltacommit"]), id="something half-way"),
        pytest.param(replace(GOOD, late=["compaction c waited"]), id="a late compaction"),
        pytest.param(replace(GOOD, errors=["the writer is gone"]), id="trouble on the way"),
    ],
)
def test_whatever_else_was_promised_and_not_shown_is_a_shortcoming(bad: SeveralReport) -> None:
    """Each promise is checked by itself."""
    assert len(bad.shortcomings()) == 1


def test_people_are_told_whose_fault_each_failure_is() -> None:
    """The report has the instant, the reason, and the daemon's account."""
    out = io.StringIO()

    tell(Console(file=out, width=200), GOOD)

    for words in ("Hudi 1.0.2, 1.1.1", "theirs: batch 9 of b", VERDICT.why, "0 of 1 failures are ours", "0 of 1"):
        assert words in out.getvalue()


def test_programs_read_the_same(tmp_path: Path) -> None:
    """Each failure has its verdict, and the daemon's account."""
    GOOD.write(tmp_path / "report.json")

    found = json.loads((tmp_path / "report.json").read_text())

    assert found["verdicts"][0]["why"] == VERDICT.why
    assert [told["instant"] for told in found["told"]] == [VERDICT.instant]
    assert (found["unmerged_peak"], found["wrong_by_spark"], found["releases"]) == (24, 0, ["1.0.2", "1.1.1"])
