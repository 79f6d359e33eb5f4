"""A remedy of several lines is printed whole, and as lines."""

from __future__ import annotations

import io

from rich.console import Console

from lakewarden.planners.model.decision import Blocked
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.proof import wrong
from lakewarden.service.commands.doctor import print_proofs
from lakewarden.service.commands.report import LakeReport, ServiceLine, TableLine
from lakewarden.service.commands.report_printing import document_of, text_of

REMEDY = "name the lock that the writers use:\n  lock: {provider: zookeeper}"


def test_a_remedy_of_doctor_keeps_its_lines() -> None:
    """No line is cut off, and no line break is a backslash."""
    out = io.StringIO()
    print_proofs([wrong("table", "blocked", REMEDY)], out=out)
    assert "\\n" not in out.getvalue()
    assert [one.strip() for one in out.getvalue().splitlines()[1:]] == [
        "-> name the lock that the writers use:",
        "lock: {provider: zookeeper}",
    ]


def test_a_remedy_of_the_report_keeps_its_lines() -> None:
    """In the text, and as line breaks of JSON."""
    blocked = ServiceLine(service=Service.COMPACTION, decision=Blocked(reason="no lock", remedy=REMEDY))
    line = TableLine(location="/lake/trips", name="trips", format="hudi", services=(blocked,))
    report = LakeReport(at="2026-11-25T00:00:00Z", places=("/lake",), tables=(line,))
    console = Console(file=io.StringIO(), width=200, record=True)
    console.print(text_of(report, most=0))
    assert "lock: {provider: zookeeper}" in console.export_text()
    assert r"use:\n  lock" in document_of(report)
    assert r"\\n" not in document_of(report)
