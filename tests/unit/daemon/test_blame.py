"""Failures of writers: near one of our runs they count as caused by us, and each is told once."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.executors.contract import Step
from lakewarden.planners.model.view import WriteFailure
from lakewarden.service.blame import NEAR, Blamed, blame
from lakewarden.service.store.port import RunState
from tests.support.road import TRIPS, Road
from tests.support.values import NOW, a_run

FAILURE = WriteFailure(instant="00000015", at=NOW, reason="it was rolled back")
_minutes = st.floats(-600, 600).map(lambda minutes: timedelta(minutes=minutes))


@given(begins=_minutes, lasts=st.none() | st.floats(0, 60).map(lambda minutes: timedelta(minutes=minutes)))
def test_a_failure_counts_against_a_run_that_was_under_way_within_a_minute_of_it(
    begins: timedelta, lasts: timedelta | None
) -> None:
    """Before it began or after it ended; a run that has not ended is under way until now."""
    started = NOW + begins
    ended = None if lasts is None else started + lasts
    run = a_run(state=RunState.RUNNING, started_at=started, ended_at=ended)

    near = started - NEAR <= NOW and (ended is None or ended + NEAR >= NOW)

    assert (blame(FAILURE, [run]).run == run.id) is near


def test_a_write_that_was_found_dead_late_counts_against_a_run_beside_which_it_was_written() -> None:
    """Nobody knows when it failed: a run that had ended long before it was found may have been the cause."""
    found_late = WriteFailure(instant="1", begun_at=NOW - timedelta(hours=1), at=NOW, reason="its heartbeat ran out")
    beside = a_run(started_at=NOW - timedelta(minutes=50), ended_at=NOW - timedelta(minutes=49))
    before = a_run(started_at=NOW - timedelta(minutes=70), ended_at=NOW - timedelta(minutes=62))

    assert blame(found_late, [before, beside]).run == beside.id
    assert blame(found_late, [before]).run is None


def test_a_run_that_never_started_is_not_to_blame() -> None:
    """A row in the queue hurts nobody."""
    assert blame(FAILURE, [a_run()]) == Blamed(failure=FAILURE)
    assert blame(FAILURE, []) == Blamed(failure=FAILURE)


@pytest.mark.parametrize("beside_us", [True, False])
def test_a_write_that_dies_is_told_once_and_shown(tmp_path: Path, beside_us: bool) -> None:
    """With the run of ours that it counts against, for as long as the timeline tells of it."""
    road = Road(tmp_path)
    road.write(3 if beside_us else 1)
    run = road.until_executing(Step.EXECUTE) if beside_us else None
    failed = road.lake.begin_write()

    road.for_a_while(timedelta(minutes=2))

    (told,) = road.diary.failures
    assert (told.failure.instant, told.run) == (failed, run.id if run else None)
    status = road.status.table(TRIPS)
    assert status is not None
    assert status.writer_failures == (told,)
    road.lake.withdraw(failed)
    road.for_a_while()
    status = road.status.table(TRIPS)
    assert status is not None
    assert status.writer_failures == ()


def test_a_write_that_ends_well_has_not_failed(tmp_path: Path) -> None:
    """However long it took, while its heart beat."""
    road = Road(tmp_path)
    write = road.lake.begin_write()
    for _ in range(10):
        road.for_a_while(timedelta(seconds=5))
        road.lake.beat(write)
    road.lake.commit_write(write)
    road.for_a_while(timedelta(minutes=1))

    assert road.diary.failures == []
