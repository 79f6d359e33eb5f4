"""How the demo shows a state: a line for everything that is new."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from lakewarden.demo.reader import Query
from lakewarden.demo.screen import Screen
from lakewarden.demo.snapshot import DemoState, Gauge
from lakewarden.demo.writers.orders import Batch, Ending, Record, Row
from lakewarden.service.http.schemas import RunBody, TableBody
from tests.support.daemon.answers import NOON, a_run_told, table_body


def run(state: str, **changes: object) -> RunBody:
    return a_run_told(state=state, instant="20260101120000000", **changes)


def table(decision: str, reason: str) -> TableBody:
    decided = {"code": "due", "decision": decision, "reason": reason, "remedy": None, "again_at": None}
    service = {"decision": decided, "commits_since": 3, "pending": 1, "active_run": "r1"}
    return TableBody.model_validate(table_body("orders", observed_at=NOON, services={"compaction": service}))


ROWS = (Row(key="a", partition="north", value=1),)
SCENE = DemoState(
    phase="live: 12 of 90 s",
    table=table("NotDue", "2 of 3 commits since the last one"),
    page="http://127.0.0.1:8080/tables/trips",
    runs=(run("COMMITTING", waits_for="a clean is executing"),),
    hooks=5,
    record=Record(batches=(Batch(number=1, rows=ROWS, begun=NOON, ending=Ending.ACKNOWLEDGED, answered=NOON),)),
    queries=(Query(rows=150, counted={"log_files": 6}, seconds=0.05), Query(failure="a file is gone")),
    counts={
        "log_files": Gauge(words="log files to merge", now=6, peak=12),
        "file_versions": Gauge(words="file versions", now=9, peak=9),
    },
)


def shown(*scenes: DemoState) -> list[str]:
    """Return the lines that are shown."""
    out = io.StringIO()
    screen = Screen(Console(file=out, width=120))
    for scene in scenes:
        screen.show(scene)
    return out.getvalue().splitlines()


def test_a_line_is_printed_for_what_is_new_and_only_once() -> None:
    """The same state twice is no change."""
    once, twice = shown(SCENE), shown(SCENE, SCENE)

    assert once == twice
    assert sum("in a browser" in line for line in once) == 1
    assert any("compaction 20260101120000000 committing: waits: a clean is executing" in line for line in once)


def test_every_fifth_commit_is_told_with_the_counts_and_both_tallies() -> None:
    """A line for each commit would hide the rest."""
    written = replace(SCENE, record=Record(batches=SCENE.record.batches * 5))

    [line] = [line for line in shown(SCENE, written) if line.startswith("  table: ")]

    for words in ("6 (peak 12) log files", "5 commits, 0 failed", "5 hooks taken", "2 queries, 1 failed"):
        assert words in line


def test_a_run_that_comes_further_is_news() -> None:
    """Every state of a run has its line."""
    ended = replace(SCENE, runs=(run("SUCCEEDED", outcome="completed"),))

    assert shown(SCENE, ended)[-1].endswith("compaction 20260101120000000 succeeded: completed")


def test_a_block_is_news_with_its_reason() -> None:
    """An operator may have to act on it."""
    blocked = replace(SCENE, table=table("Blocked", "no lock is configured"))

    assert shown(SCENE, blocked)[-1].endswith("compaction is blocked: no lock is configured")


def test_what_is_shown_is_not_read_as_markup() -> None:
    """Reasons may contain brackets."""
    odd = replace(SCENE, runs=(run("FAILED", outcome="[red]no[/nothing] such [file]"),))

    assert "[red]no[/nothing] such [file]" in shown(odd)[-1]
