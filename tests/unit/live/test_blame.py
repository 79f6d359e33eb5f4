"""A failed commit counts as caused by Lakewarden if a run of Lakewarden was within a minute of it."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from lakewarden.demo.writers.orders import Batch, Ending
from lakewarden.service.http.schemas import RunBody
from live.blame import caused_by_us
from tests.support.daemon.run_bodies import NOON, a_run_told


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def failed(begun: float, answered: float | None) -> Batch:
    return Batch(
        number=1,
        rows=(),
        begun=at(begun),
        ending=Ending.OPEN if answered is None else Ending.FAILED,
        answered=None if answered is None else at(answered),
    )


def run(started: float | None, ended: float | None) -> RunBody:
    return a_run_told(
        state="RUNNING" if ended is None else "SUCCEEDED",
        started_at=None if started is None else at(started),
        ended_at=None if ended is None else at(ended),
    )


@pytest.mark.parametrize(
    ("batch", "ours", "blamed"),
    [
        pytest.param(failed(10, 12), run(11, 11.5), True, id="inside it"),
        pytest.param(failed(100, 102), run(0, 50), True, id="ended 50 s before it began"),
        pytest.param(failed(100, 102), run(0, 39), False, id="ended 61 s before it began"),
        pytest.param(failed(0, 10), run(69, 80), True, id="began 59 s after it had failed"),
        pytest.param(failed(0, 10), run(71, 80), False, id="began 61 s after it had failed"),
        pytest.param(failed(500, 510), run(0, None), True, id="still running"),
        pytest.param(failed(0, None), run(900, 901), True, id="never answered"),
        pytest.param(failed(0, 10), run(None, 5), False, id="never started"),
    ],
)
def test_whatever_ran_within_a_minute_of_a_failure_is_blamed(batch: Batch, ours: RunBody, blamed: bool) -> None:
    """The run may be before it, beside it, or just after it."""
    assert bool(caused_by_us([batch], [ours])) is blamed


def test_without_runs_no_failure_is_ours() -> None:
    """A writer may fail without any run."""
    assert caused_by_us([failed(0, 10)], []) == []
