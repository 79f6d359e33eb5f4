"""How the demo shows a state: a picture in a terminal, plain lines anywhere else."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import UTC, datetime

from rich.console import Console

from lakewarden.demo.reader import Query
from lakewarden.demo.screen import picture, screen_on
from lakewarden.demo.snapshot import DemoState, Gauge
from lakewarden.demo.writers.orders import Batch, Ending, Record, Row
from lakewarden.service.http.schemas import DecisionBody, RunBody, ServiceBody, TableBody
from lakewarden.service.reporting.explain.bodies import WritersExplanation

_NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def run(state: str, **changes: object) -> RunBody:
    values = {
        "id": "r1",
        "table": "orders",
        "service": "compaction",
        "state": state,
        "instant": "20260101120000000",
        "reason": "3 of 3 commits since the last one",
        "requested_by": "daemon",
        "step": None,
        "epoch": 1,
        "created_at": _NOON,
        "started_at": _NOON,
        "ended_at": None,
        "run_seconds": 1.5,
        "waits_for": None,
        "outcome": None,
        "figures": {},
        **changes,
    }
    return RunBody.model_validate(values)


def table(decision: str, reason: str) -> TableBody:
    decided = DecisionBody(code="due", decision=decision, reason=reason, remedy=None, again_at=None)
    return TableBody(
        id="orders",
        format="hudi",
        path="/tmp/demo/table",
        mode="act",
        owner="r1",
        poll_seconds=10,
        paused=None,
        failure=None,
        observed_seconds_ago=0.1,
        observed_at=_NOON,
        name="orders",
        kind="MERGE_ON_READ",
        version="9",
        latest_instant=None,
        writers=WritersExplanation(
            in_flight=[], last_commit_at=None, usual_interval_seconds=None, non_blocking=False, failures=[]
        ),
        warnings=[],
        faults=[],
        contact=None,
        labels={},
        services={"compaction": ServiceBody(decision=decided, commits_since=3, pending=1, active_run="r1")},
    )


ROWS = (Row(key="a", partition="north", value=1),)
SCENE = DemoState(
    phase="live: 12 of 90 s",
    table=table("NotDue", "2 of 3 commits since the last one"),
    page="http://127.0.0.1:8080/tables/trips",
    runs=(run("COMMITTING", waits_for="a clean is executing"),),
    hooks=5,
    record=Record(batches=(Batch(number=1, rows=ROWS, begun=_NOON, ending=Ending.ACKNOWLEDGED, answered=_NOON),)),
    queries=(Query(rows=150, counted={"log_files": 6}, seconds=0.05), Query(failure="a file is gone")),
    counts={
        "log_files": Gauge(words="log files to merge", now=6, peak=12),
        "file_versions": Gauge(words="file versions", now=9, peak=9),
    },
)


def shown(*scenes: DemoState) -> list[str]:
    """Return the lines that are shown without a terminal."""
    out = io.StringIO()
    with screen_on(Console(file=out, width=120)) as screen:
        for scene in scenes:
            screen.show(scene)
    return out.getvalue().splitlines()


def test_the_picture_tells_health_doings_and_reasons() -> None:
    """It has the table's counts, the decisions with their reasons, what a run waits for, and both tallies."""
    out = io.StringIO()
    Console(file=out, width=160).print(picture(SCENE))
    text = out.getvalue()

    for words in (
        "live: 12 of 90 s",
        "6 (peak 12) log files",
        "1 commits, 0 failed",
        "5 hooks taken",
        "2 queries, 1 failed",
        "2 of 3 commits since the last one",
        "waits: a clean is executing",
        "in a browser: http://127.0.0.1:8080/tables/trips",
    ):
        assert words in text


def test_the_picture_can_be_drawn_before_there_is_anything_to_see() -> None:
    """The demo shows its first phase before any process answers."""
    Console(file=io.StringIO(), width=80).print(picture(DemoState(phase="starting ZooKeeper")))


def test_without_a_terminal_a_line_is_printed_for_what_is_new_and_only_once() -> None:
    """The same state twice is no change."""
    once, twice = shown(SCENE), shown(SCENE, SCENE)

    assert once == twice
    assert sum("in a browser" in line for line in once) == 1
    assert any("compaction 20260101120000000 committing: waits: a clean is executing" in line for line in once)


def test_a_run_that_comes_further_is_news() -> None:
    """Every state of a run has its line."""
    ended = replace(SCENE, runs=(run("SUCCEEDED", outcome="completed"),))

    assert shown(SCENE, ended)[-1].endswith("compaction 20260101120000000 succeeded: completed")


def test_a_block_is_news_with_its_reason() -> None:
    """An operator may have to act on it."""
    blocked = replace(SCENE, table=table("Blocked", "no lock is named"))

    assert shown(SCENE, blocked)[-1].endswith("compaction is blocked: no lock is named")


def test_what_is_shown_is_not_read_as_markup() -> None:
    """Reasons may contain brackets."""
    odd = replace(SCENE, runs=(run("FAILED", outcome="[red]no[/nothing] such [file]"),))

    assert "[red]no[/nothing] such [file]" in shown(odd)[-1]
