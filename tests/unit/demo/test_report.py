"""The report: its keys, and the conditions of a successful demo."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lakewarden.demo.report import Range, ReaderTally, Report, ServiceTally, WriterTally

GOOD = Report(
    rows_expected=150,
    rows_found=150,
    rows_wrong=0,
    writer=WriterTally(commits=20, failures=0),
    reader=ReaderTally(queries=300, failures=0),
    services={"compaction": ServiceTally(succeeded=6), "clean": ServiceTally(succeeded=5, failed=1)},
    counted={"log_files": Range(peak=12, end=0), "file_versions": Range(peak=15, end=12)},
    promised=("compaction", "clean"),
)


def test_the_report_has_the_promised_keys(tmp_path: Path) -> None:
    """Programs read it."""
    GOOD.write(tmp_path / "report.json")

    assert json.loads((tmp_path / "report.json").read_text()) == {
        "rows_expected": 150,
        "rows_found": 150,
        "rows_wrong": 0,
        "writer": {"commits": 20, "failures": 0, "reasons": []},
        "reader": {"queries": 300, "failures": 0},
        "services": {"compaction": {"succeeded": 6, "failed": 0}, "clean": {"succeeded": 5, "failed": 1}},
        "log_files": {"peak": 12, "end": 0},
        "file_versions": {"peak": 15, "end": 12},
    }


def test_a_good_demo_has_no_shortcomings() -> None:
    """A failed run that disturbed no writer and no reader is no shortcoming."""
    assert GOOD.shortcomings() == []


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(replace(GOOD, rows_wrong=1), id="a wrong row"),
        pytest.param(replace(GOOD, writer=WriterTally(commits=20, failures=1)), id="a failed commit"),
        pytest.param(replace(GOOD, reader=ReaderTally(queries=300, failures=1)), id="a failed query"),
        pytest.param(replace(GOOD, services={"clean": ServiceTally(succeeded=1)}), id="no compaction"),
        pytest.param(replace(GOOD, services={"compaction": ServiceTally(succeeded=1)}), id="no clean"),
    ],
)
def test_whatever_was_promised_and_not_shown_is_a_shortcoming(bad: Report) -> None:
    """Each promise is checked by itself."""
    assert len(bad.shortcomings()) == 1


def test_a_failed_commit_is_told_with_its_reason() -> None:
    """With only a number the user would have to read the logs."""
    bad = replace(GOOD, writer=WriterTally(commits=20, failures=1, reasons=["Caused by: LockTimeout: waited 60 s"]))
    assert "LockTimeout: waited 60 s" in bad.shortcomings()[0]
