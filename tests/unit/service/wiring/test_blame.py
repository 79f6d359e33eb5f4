"""Failures of writers: what met a plan or a commit of ours counts as caused by us, and each is told once."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.model.instant import Service, Step
from lakewarden.planners.model.view import WriteFailure
from lakewarden.service.model.run import RunState
from lakewarden.service.rules.writer_failures import CLOCKS, Blamed, blame
from tests.support.daemon.daemon_harness import TRIPS, DaemonHarness
from tests.support.values import NOW, a_run

FAILURE = WriteFailure(instant="00000015", at=NOW, reason="it was rolled back")
_minutes = st.floats(-600, 600).map(lambda minutes: timedelta(minutes=minutes))


@given(begins=_minutes, lasts=st.none() | st.floats(0, 60).map(lambda minutes: timedelta(minutes=minutes)))
def test_a_plan_that_is_gone_is_blamed_for_what_failed_beside_its_run(
    begins: timedelta, lasts: timedelta | None
) -> None:
    """Nobody can say whom it met; a run that has not ended is under way until now."""
    started = NOW + begins
    ended = None if lasts is None else started + lasts
    run = a_run(state=RunState.RUNNING, instant="00000020", started_at=started, ended_at=ended)

    beside = started - CLOCKS <= NOW and (ended is None or ended + CLOCKS >= NOW)

    assert (blame(FAILURE, [run]).run == run.id) is beside


def test_a_plan_that_is_on_the_timeline_is_blamed_for_what_met_it_alone() -> None:
    """The format knows what a write can have failed by; a run that was merely under way has done nothing."""
    plan = a_run(instant="00000020", started_at=NOW - timedelta(minutes=5), ended_at=NOW + timedelta(minutes=5))

    def blamed(*met: str) -> bool:
        failure = replace(FAILURE, met=frozenset(met))
        return blame(failure, [plan], instants={"00000020", "00000030"}).run == plan.id

    assert blamed("00000020")
    assert not blamed("00000030")
    assert not blamed()


@pytest.mark.parametrize("service", [Service.CLEAN, Service.ARCHIVE, Service.ROLLBACK])
def test_a_service_by_which_no_write_can_fail_is_not_to_blame(service: Service) -> None:
    """Two writers fail one another beside a clean as they do without it."""
    run = a_run(service=service, instant="00000020", started_at=NOW, state=RunState.RUNNING)

    assert blame(FAILURE, [run]).run is None


@pytest.mark.parametrize(
    ("step", "state", "blamed"),
    [
        (None, RunState.RUNNING, False),
        (Step.PLAN, RunState.CANCELLED, False),
        (Step.PLAN, RunState.SUCCEEDED, False),
        (Step.PLAN, RunState.RUNNING, True),
        (Step.PLAN, RunState.FAILED, True),
        (Step.COMMIT, RunState.SUCCEEDED, True),
    ],
)
def test_a_run_that_put_nothing_on_the_timeline_is_not_to_blame(
    step: Step | None, state: RunState, blamed: bool
) -> None:
    """It only waited; one that was planning, or died at it, may have put something there."""
    run = a_run(step=step, state=state, started_at=NOW - timedelta(seconds=1))

    assert (blame(FAILURE, [run]).run is not None) is blamed


def test_a_write_that_was_found_dead_late_counts_against_a_run_beside_which_it_was_written() -> None:
    """Nobody knows when it failed: a run that had ended long before it was found may have been the cause."""
    found_late = WriteFailure(instant="1", begun_at=NOW - timedelta(hours=1), at=NOW, reason="its heartbeat ran out")
    times = [(timedelta(minutes=50), timedelta(minutes=49)), (timedelta(minutes=70), timedelta(minutes=62))]
    beside, before = (
        a_run(instant=str(number), started_at=NOW - begun, ended_at=NOW - ended)
        for number, (begun, ended) in enumerate(times)
    )

    assert blame(found_late, [before, beside]).run == beside.id
    assert blame(found_late, [before]).run is None


def test_without_a_run_nobody_of_ours_is_to_blame() -> None:
    """Writers fail by themselves, too."""
    assert blame(FAILURE, []) == Blamed(failure=FAILURE)


@pytest.mark.parametrize("beside_us", [True, False])
def test_a_write_that_dies_is_told_once_and_shown(tmp_path: Path, beside_us: bool) -> None:
    """With the run of ours that it counts against, for as long as the timeline tells of it."""
    harness = DaemonHarness(tmp_path)
    harness.write(3 if beside_us else 1)
    run = harness.until_executing(Step.EXECUTE) if beside_us else None
    failed = harness.lake.begin_write()

    harness.for_a_while(timedelta(minutes=2))

    (told,) = harness.recorded.failures
    assert (told.failure.instant, told.run) == (failed, run.id if run else None)
    status = harness.status.table(TRIPS)
    assert status is not None
    assert status.writer_failures == (told,)
    harness.lake.withdraw(failed)
    harness.for_a_while()
    status = harness.status.table(TRIPS)
    assert status is not None
    assert status.writer_failures == ()


def test_a_write_that_ends_well_has_not_failed(tmp_path: Path) -> None:
    """However long it took, while its heart beat."""
    harness = DaemonHarness(tmp_path)
    write = harness.lake.begin_write()
    for _ in range(10):
        harness.for_a_while(timedelta(seconds=5))
        harness.lake.beat(write)
    harness.lake.commit_write(write)
    harness.for_a_while(timedelta(minutes=1))

    assert harness.recorded.failures == []


def test_what_failed_before_a_daemon_came_is_shown_and_not_told_again(tmp_path: Path) -> None:
    """A restart counts nothing twice, however long the timeline remembers it."""
    harness = DaemonHarness(tmp_path)
    failed = harness.lake.begin_write()
    harness.for_a_while(timedelta(minutes=1))
    assert [one.failure.instant for one in harness.recorded.failures] == [failed]

    harness.compose()
    harness.for_a_while(timedelta(minutes=1))
    later = harness.lake.begin_write()
    harness.for_a_while(timedelta(minutes=1))

    status = harness.status.table(TRIPS)
    assert status is not None
    assert [one.failure.instant for one in status.writer_failures] == [failed, later]
    assert [one.failure.instant for one in harness.recorded.failures] == [later]
