"""Estimates of the end of a run, from earlier runs."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from lakewarden.service.model.run import Run, RunState
from lakewarden.service.rules.forecast import estimate
from tests.support.values import a_run

BEGUN = datetime(2026, 1, 1, tzinfo=UTC)


def past(seconds: float, size: int | None = None) -> Run:
    """Return a run that took so long and rewrote so many bytes."""
    said: dict[str, float] = {"commit_seconds": 0.1} | ({} if size is None else {"bytes_rewritten": size})
    return a_run(state=RunState.SUCCEEDED, started_at=BEGUN, ended_at=BEGUN + timedelta(seconds=seconds), figures=said)


def test_runs_that_rewrote_bytes_are_compared_by_their_rate() -> None:
    """A plan of twice the size takes twice as long. One slow run among three does not count."""
    found = estimate([past(10, 100), past(12, 100), past(900, 100)], planned_bytes=200)

    assert found is not None
    assert (found.length, found.runs, found.by_size) == (timedelta(seconds=24), 3, True)


def test_without_the_size_of_the_plan_the_durations_are_compared() -> None:
    """That holds as well if no earlier run said its size."""
    for runs, planned in (([past(10, 100), past(20, 100), past(30, 100)], None), ([past(20)], 1000)):
        found = estimate(runs, planned_bytes=planned)
        assert found is not None
        assert (found.length, found.by_size) == (timedelta(seconds=20), False)


def test_a_run_that_did_no_work_says_nothing() -> None:
    """It failed, or found nothing to do."""
    failed, idle = replace(past(1), state=RunState.FAILED), replace(past(1), figures={})

    assert estimate([failed, idle], planned_bytes=5) is None


@given(
    st.lists(st.tuples(st.floats(0, 1e6), st.none() | st.integers(0, 2**70)), max_size=5),
    st.none() | st.integers(0, 2**80),
)
def test_any_figures_make_an_estimate(runs: list[tuple[float, int | None]], planned: int | None) -> None:
    """Figures come from the results of workers. None of them is too large for a moment in time."""
    found = estimate([past(seconds, size) for seconds, size in runs], planned_bytes=planned)

    if found is not None:
        assert found.length >= timedelta(0)
