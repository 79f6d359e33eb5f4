"""The checker finds damage: each broken history is found, by its rule. An undamaged history has no violation."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from faults.checking.checker import Rule, violations
from faults.checking.history import History, Interval, StoredRun, TimelineFound
from lakewarden.demo.writers.orders import Batch, Ending, Row
from lakewarden.planners.model.instant import Step
from live.journey import Journey

NOON = datetime(2026, 1, 1, tzinfo=UTC)


def row(key: str, value: int = 1) -> Row:
    return Row(key=key, partition="north", value=value)


def interval(run: str, epoch: int, begun: float, until: float, **details: Any) -> Interval:
    facts = {"table": "orders", "service": "compaction", "instant": "5", "step": Step.EXECUTE}
    return Interval(run=run, epoch=epoch, begun=begun, until=until, **{**facts, **details})


def stored(run: str, epoch: int, **details: Any) -> StoredRun:
    facts = {"identity": "t1", "service": "compaction", "state": "SUCCEEDED", "instant": "5", "ended": True}
    return StoredRun(id=run, epoch=epoch, **{**facts, **details})


WHOLE = History(
    expected={"a": row("a"), "b": row("b", 2)},
    found={"a": row("a"), "b": row("b", 2)},
    needed={"4": {"north/a.parquet"}, "5": {"north/b.parquet"}},
    files={"north/a.parquet", "north/b.parquet", "north/of-no-writer.parquet"},
    timeline=TimelineFound(completed={"4": "UPSERT", "5": "compaction", "6": "clean"}, archived={"1", "2"}),
    intervals=[
        interval("r1", 1, 10.0, 12.0),  # cut off by a kill
        interval("r2", 2, 12.0, 14.0),
        interval("r2", 2, 14.5, 15.0, step=Step.COMMIT),
        interval("r3", 1, 13.0, 16.0, service="clean", instant="6", step=Step.COMMIT),
        interval("r4", 1, 13.0, 16.0, service="archive", instant=None),
        interval("r5", 2, 14.0, 17.0, service="archive", instant=None),
    ],
    runs=[
        stored("r0", 0, state="CANCELLED", instant=None),
        stored("r1", 1, state="FAILED"),
        stored("r2", 2),
        stored("r3", 1, service="clean", instant="6"),
        stored("r6", 3, instant="2"),
        stored("r7", 4, instant=None),
    ],
    journeys=[
        Journey(instant="4", operation="UPSERT"),
        Journey(instant="5", operation="UPSERT", wrong=3, overtaken="7"),
    ],
)


def found(history: History) -> list[Rule]:
    return [violation.rule for violation in violations(history)]


def test_a_whole_history_is_not_accused() -> None:
    """It has a second attempt after a kill, a file without a writer, an archived instant, and a write that a compaction
    overtook.
    """
    assert violations(WHOLE) == []


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param({"a": row("a")}, id="missing"),
        pytest.param({"a": row("a"), "b": row("b", 2), "c": row("c")}, id="extra"),
        pytest.param({"a": row("a"), "b": row("b", 1)}, id="of an older batch"),
        pytest.param({}, id="all"),
    ],
)
def test_a_row_that_is_not_as_the_writer_left_it_is_found(rows: dict[str, Row]) -> None:
    """The row is missing, surplus, or has another value."""
    assert found(replace(WHOLE, found=rows)) == [Rule.ROWS]


def test_a_file_that_a_retained_instant_needs_and_that_is_gone_is_found() -> None:
    """Its name and its instant are reported."""
    [violation] = violations(replace(WHOLE, files={"north/b.parquet"}))
    assert violation.rule is Rule.FILES
    assert "instant 4" in violation.what
    assert "north/a.parquet" in violation.what


@pytest.mark.parametrize(
    ("damage", "rule", "told"),
    [
        ({"timeline": replace(WHOLE.timeline, pending={"9.compaction"})}, Rule.PENDING, "9.compaction"),
        ({"journeys": [Journey(instant="5", operation="UPSERT", wrong=1)]}, Rule.TRAVEL, "5"),
        ({"journeys": [Journey(instant="5", operation="UPSERT", failure="FileNotFoundError")]}, Rule.TRAVEL, "5"),
        ({"failures": [Batch(number=7, rows=(), begun=NOON, ending=Ending.FAILED)]}, Rule.WRITER, "7"),
        ({"failures": [Batch(number=7, rows=(), begun=NOON, ending=Ending.OPEN)]}, Rule.WRITER, "7"),
        ({"twice": {"a"}}, Rule.ROWS, "a"),
        ({"changed": {"5": 3}}, Rule.CHANGED, "compaction 5 changed 3 rows"),
    ],
)
def test_each_damage_is_found_by_its_rule_and_named(damage: dict[str, Any], rule: Rule, told: str) -> None:
    """What is pending after the drain, an instant with other rows or unreadable, a commit that failed or was never
    answered, a key in several rows, and rows that a service of ours changed.
    """
    [violation] = violations(replace(WHOLE, **damage))
    assert violation.rule is rule
    assert told in violation.what


@pytest.mark.parametrize(
    "second",
    [
        pytest.param(interval("r2", 2, 11.9, 14.0), id="begins before the first has ended"),
        pytest.param(interval("r2", 2, 11.0, 11.5), id="within the first"),
        pytest.param(interval("r2", 2, 11.9, math.inf), id="never ends"),
    ],
)
def test_two_executors_of_one_instant_at_one_time_are_found(second: Interval) -> None:
    """The time may be short, and either executor may have ended first."""
    others = [each for each in WHOLE.intervals if each.run != "r2"]
    assert found(replace(WHOLE, intervals=[*others, second])) == [Rule.TWICE]


@pytest.mark.parametrize(
    ("intervals", "rules"),
    [
        pytest.param(
            [("r1", 1, 0, 100), ("r2", 2, 100, 101), ("r3", 3, 50, 51)], {Rule.TWICE, Rule.EPOCHS}, id="a third"
        ),
        pytest.param([("r1", 1, 10, math.inf), ("r2", 2, 1000, 1001)], {Rule.TWICE}, id="whose death was not seen"),
        pytest.param([("r1", 1, 10, 12), ("r2", 1, 12, 14)], {Rule.EPOCHS}, id="of the same epoch"),
        pytest.param([("r1", 1, 10, 12), ("r2", 0, 12, 14)], {Rule.EPOCHS}, id="of a lower epoch"),
    ],
)
def test_an_executor_that_comes_too_early_is_found(
    intervals: list[tuple[str, int, float, float]], rules: set[Rule]
) -> None:
    """Also beside a long first one that the second one hides, and after one whose end is not known."""
    assert set(found(replace(WHOLE, intervals=[interval(*each) for each in intervals]))) == rules


@pytest.mark.parametrize("epoch", [2, 1])
def test_an_owner_whose_epoch_is_not_higher_is_found_in_the_store(epoch: int) -> None:
    """Each lease is checked by itself: the epochs of another service do not count."""
    runs = [*WHOLE.runs, stored("r8", epoch, state="FAILED", instant=None, service="log_compaction")]
    runs += [stored("r9", 2, state="FAILED", instant=None, service="log_compaction")]
    assert found(replace(WHOLE, runs=runs)) == ([Rule.EPOCHS] if epoch == 2 else [])


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(stored("r8", 5, state="UNKNOWN", instant=None, ended=False), id="UNKNOWN is not an ending"),
        pytest.param(stored("r8", 5, instant="99"), id="a success of which the timeline knows nothing"),
        pytest.param(stored("r8", 5), id="two successes on one instant"),
        pytest.param(stored("r2", 2, state="FAILED"), id="no success on a completed instant"),
    ],
)
def test_a_run_that_the_timeline_contradicts_is_found(run: StoredRun) -> None:
    """The plan was executed twice, or by an executor that the store does not know, or one of the rows is false."""
    runs = {**{other.id: other for other in WHOLE.runs}, run.id: run}
    assert found(replace(WHOLE, runs=list(runs.values()))) == [Rule.STORE]


SIGNED = replace(
    WHOLE,
    timeline=replace(WHOLE.timeline, completed={"4": "UPSERT", "7": "compaction", "6": "clean"}, authors={"7": "r2"}),
    runs=[
        stored("r1", 1, state="FAILED", instant=None),
        stored("r2", 2, instant=None),
        stored("r3", 1, service="clean", instant="6"),
        stored("r4", 3, instant=None, idle=True),
    ],
    exclusive={"clean"},
    signed={"compaction"},
)


def test_a_format_that_names_the_run_in_the_instant_is_compared_by_it() -> None:
    """The store has no instant for such a run. A run that found nothing to do leaves no name."""
    assert violations(SIGNED) == []


@pytest.mark.parametrize(
    "runs",
    [
        pytest.param([stored("r2", 2, state="FAILED", instant=None)], id="the store has it as failed"),
        pytest.param([], id="the store does not know it"),
        pytest.param([stored("r2", 2, service="clustering", instant=None)], id="it is of another service"),
    ],
)
def test_an_instant_with_the_name_of_a_run_that_has_not_succeeded_is_found(runs: list[StoredRun]) -> None:
    """Its work would be done again."""
    before, _, *after = SIGNED.runs
    [violation] = violations(replace(SIGNED, runs=[before, *runs, *after]))
    assert (violation.rule, "names run r2" in violation.what) == (Rule.STORE, True)


def test_a_success_that_left_its_name_nowhere_is_found() -> None:
    """The table shows nothing of its work."""
    [violation] = violations(replace(SIGNED, runs=[*SIGNED.runs, stored("r9", 9, instant=None)]))
    assert (violation.rule, "no instant names it" in violation.what) == (Rule.STORE, True)
