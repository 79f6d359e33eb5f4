"""A remedy of several lines is printed whole, and as lines."""

from __future__ import annotations

import io

from rich.console import Console

from lakewarden.service.commands.doctor.doctor import print_findings
from lakewarden.service.commands.doctor.findings import failed
from lakewarden.service.commands.report.document import document_of
from lakewarden.service.commands.report.lines import LakeReport, ServiceLine, TableLine, Verdict
from lakewarden.service.commands.report.text import text_of

REMEDY = "name the lock that the writers use:\n  lock: {provider: zookeeper}"


def test_a_remedy_of_doctor_keeps_its_lines() -> None:
    """No line is cut off, and no line break is a backslash."""
    out = io.StringIO()
    print_findings([failed("table", "blocked", REMEDY)], out=out)
    assert "\\n" not in out.getvalue()
    assert [one.strip() for one in out.getvalue().splitlines()[1:]] == [
        "-> name the lock that the writers use:",
        "lock: {provider: zookeeper}",
    ]


def test_a_remedy_of_the_report_keeps_its_lines() -> None:
    """In the text, and as line breaks of JSON."""
    blocked = ServiceLine(service="compaction", verdict=Verdict.BLOCKED, reason="no lock", remedy=REMEDY)
    line = TableLine(location="/lake/trips", name="trips", format="hudi", services=(blocked,))
    report = LakeReport(at="2026-11-25T00:00:00Z", places=("/lake",), tables=(line,))
    console = Console(file=io.StringIO(), width=200, record=True)
    console.print(text_of(report, most=0))
    assert "lock: {provider: zookeeper}" in console.export_text()
    assert r"use:\n  lock" in document_of(report)
    assert r"\\n" not in document_of(report)
