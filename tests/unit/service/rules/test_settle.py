"""Settling: what a run is written down as, case by case. `test_every_case` goes through all there are."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from lakewarden.executors.contract import GOES_ON, Failed, FailureKind, NothingToDo, Outcome, Succeeded, Yielded
from lakewarden.planners.model.instant import Fate, Service, Step
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.rules.settle import Consequence, Gone, Settlement, Shown, after_cancel, ends_rewrite, settle
from tests.support.values import a_run

FINISHED = a_run(state=RunState.COMMITTING, step=Step.COMMIT, instant="00000020", epoch=1)
PLANNED = a_run(state=RunState.RUNNING, step=Step.EXECUTE, instant="00000020", epoch=1)
PLANNING = a_run(state=RunState.RUNNING, step=Step.PLAN, epoch=1)
NOT_BEGUN = a_run(state=RunState.RUNNING, epoch=1)
OFF_TIMELINE = a_run(state=RunState.COMMITTING, step=Step.COMMIT, service=Service.ARCHIVE, epoch=1)

ABSENT, PENDING, COMPLETED, ARCHIVED = (
    Shown(fate=fate) for fate in (Fate.ABSENT, Fate.PENDING, Fate.COMPLETED, Fate.ARCHIVED)
)
BEATING = Shown(fate=Fate.PENDING, beats=True)
SHOWN: list[Shown | None] = [None, ABSENT, PENDING, BEATING, COMPLETED, ARCHIVED]

DEAD = Gone(reason="killed", proved=True)
MISSING = Gone(reason="killed", proved=False)
UNCLEAR = Failed(kind=FailureKind.UNKNOWN, reason="no answer", step=Step.COMMIT)
BATCH = Succeeded(figures={GOES_ON: 1})
OF_ALL = replace(PLANNING, rewrite_all="7-70")
TEMPORARY = Failed(kind=FailureKind.TEMPORARY, reason="no disk", step=Step.PLAN)
FOR_GOOD = Failed(kind=FailureKind.PERMANENT, reason="no such field", step=Step.PLAN)

MATRIX: list[tuple[str, Run, Outcome | Gone, Shown | None, RunState, Consequence]] = [
    ("claimed, then killed", NOT_BEGUN, MISSING, None, RunState.CANCELLED, Consequence.AGAIN),
    ("all files: none was left", OF_ALL, NothingToDo(reason="none"), ABSENT, RunState.SUCCEEDED, Consequence.NONE),
    ("archived a batch", OFF_TIMELINE, BATCH, ABSENT, RunState.SUCCEEDED, Consequence.NONE),
    ("killed while it planned", PLANNING, DEAD, ABSENT, RunState.FAILED, Consequence.STRIKE),
    ("killed between its plan and telling us", PLANNING, DEAD, PENDING, RunState.FAILED, Consequence.STRIKE),
    ("may still be planning", PLANNING, MISSING, ABSENT, RunState.UNKNOWN, Consequence.NONE),
    ("killed while it executed", PLANNED, DEAD, PENDING, RunState.FAILED, Consequence.STRIKE),
    ("killed, its heartbeat outlives it", PLANNED, DEAD, BEATING, RunState.FAILED, Consequence.STRIKE),
    ("may still be executing", PLANNED, MISSING, BEATING, RunState.UNKNOWN, Consequence.NONE),
    ("may be executing without a heartbeat", PLANNED, MISSING, PENDING, RunState.UNKNOWN, Consequence.NONE),
    ("rolled back by others meanwhile", PLANNED, DEAD, ABSENT, RunState.FAILED, Consequence.STRIKE),
    ("executed by others meanwhile", PLANNED, MISSING, COMPLETED, RunState.CANCELLED, Consequence.QUARANTINE),
    ("killed before it committed", FINISHED, DEAD, PENDING, RunState.FAILED, Consequence.STRIKE),
    ("killed after it committed", FINISHED, MISSING, COMPLETED, RunState.SUCCEEDED, Consequence.NONE),
    ("killed, the table is away", FINISHED, DEAD, None, RunState.UNKNOWN, Consequence.NONE),
    ("committed, the table is away", FINISHED, Succeeded(), None, RunState.UNKNOWN, Consequence.NONE),
    ("committed and seen", FINISHED, Succeeded(), COMPLETED, RunState.SUCCEEDED, Consequence.NONE),
    ("committed and gone: restored under us", FINISHED, Succeeded(), ABSENT, RunState.FAILED, Consequence.QUARANTINE),
    ("the answer to the commit was lost", FINISHED, UNCLEAR, COMPLETED, RunState.SUCCEEDED, Consequence.NONE),
    ("lost, and the client has let go", FINISHED, UNCLEAR, PENDING, RunState.FAILED, Consequence.STRIKE),
    ("lost, and the client has not", FINISHED, UNCLEAR, BEATING, RunState.UNKNOWN, Consequence.NONE),
    ("archived while nobody looked", FINISHED, DEAD, ARCHIVED, RunState.CANCELLED, Consequence.NONE),
    ("archived while somebody may be at it", FINISHED, MISSING, ARCHIVED, RunState.UNKNOWN, Consequence.NONE),
    ("killed off the timeline", OFF_TIMELINE, DEAD, ABSENT, RunState.FAILED, Consequence.STRIKE),
    ("killed off the timeline, the table is away", OFF_TIMELINE, DEAD, None, RunState.UNKNOWN, Consequence.NONE),
    ("killed off the timeline after it committed", OFF_TIMELINE, DEAD, COMPLETED, RunState.SUCCEEDED, Consequence.NONE),
    ("may still be at it off the timeline", OFF_TIMELINE, MISSING, ABSENT, RunState.UNKNOWN, Consequence.NONE),
]


@pytest.mark.parametrize(
    ("run", "ending", "shown", "state", "consequence"), [pytest.param(*case, id=name) for name, *case in MATRIX]
)
def test_the_recovery_matrix(
    run: Run, ending: Outcome | Gone, shown: Shown | None, state: RunState, consequence: Consequence
) -> None:
    """What becomes of a run at every point at which its owner can have been killed."""
    settlement = settle(ending, shown, run)

    assert (settlement.state, settlement.consequence) == (state, consequence)


@pytest.mark.parametrize("shown", [None, ABSENT, PENDING, BEATING])
def test_a_run_that_stepped_back_is_cancelled_and_nobody_is_to_blame(shown: Shown | None) -> None:
    """It rests a while and tries again."""
    delay = timedelta(minutes=3)

    assert settle(Yielded(reason="a writer is busy", delay=delay), shown, FINISHED) == Settlement(
        state=RunState.YIELDED, outcome="a writer is busy", consequence=Consequence.REST, delay=delay
    )


@pytest.mark.parametrize("shown", [ABSENT, PENDING])
@pytest.mark.parametrize(
    ("kind", "consequence"),
    [
        (FailureKind.TEMPORARY, Consequence.REST),
        (FailureKind.PERMANENT, Consequence.QUARANTINE),
        (FailureKind.UNKNOWN, Consequence.STRIKE),
    ],
)
def test_what_follows_a_failure_is_what_its_name_says(
    shown: Shown, kind: FailureKind, consequence: Consequence
) -> None:
    """Temporary failures rest for the delay they name, permanent ones need a person, unexplained ones count."""
    delay = timedelta(seconds=150)

    settlement = settle(Failed(kind=kind, reason="it broke", step=Step.EXECUTE, delay=delay), shown, FINISHED)

    assert settlement == Settlement(state=RunState.FAILED, outcome="it broke", consequence=consequence, delay=delay)


@pytest.mark.parametrize("shown", [ABSENT, PENDING])
def test_what_we_ended_ourselves_is_cancelled_and_nobody_is_to_blame(shown: Shown) -> None:
    """A worker that was killed because the daemon stops, or lost its lease, has not failed."""
    settlement = settle(Gone(reason="evicted", proved=True, consequence=Consequence.AGAIN), shown, FINISHED)

    assert (settlement.state, settlement.consequence) == (RunState.CANCELLED, Consequence.AGAIN)


@pytest.mark.parametrize("ending", [TEMPORARY, Yielded(reason=""), Gone(reason="", proved=True)])
def test_an_outcome_is_told_without_credentials(ending: Failed | Yielded | Gone) -> None:
    """The text of an exception may hold the address of a database or a key of a store."""
    said = "no answer of jdbc:postgresql://ann:hunter2@db/lake?password=hunter2 by AKIAIOSFODNN7EXAMPLE"

    outcome = settle(replace(ending, reason=said), ABSENT, PLANNING).outcome

    assert "hunter2" not in outcome
    assert "AKIA" not in outcome
    assert outcome.startswith("no answer of jdbc:postgresql://REDACTED@db/lake?password=REDACTED by REDACTED")


@pytest.mark.parametrize("shown", [ABSENT, PENDING, None])
def test_nothing_to_do_makes_the_service_idle(shown: Shown | None) -> None:
    """It is not asked again before something is written."""
    assert settle(NothingToDo(reason="no plan"), shown, FINISHED).consequence is Consequence.IDLE


@pytest.mark.parametrize("shown", [ABSENT, PENDING, None])
def test_nothing_to_do_yet_is_a_good_ending_too(shown: Shown | None) -> None:
    """It is asked again when there may be something, also if nothing was written meanwhile."""
    settlement = settle(NothingToDo(reason="too warm", again=timedelta(hours=1)), shown, FINISHED)

    assert (settlement.state, settlement.consequence) == (RunState.SUCCEEDED, Consequence.LATER)
    assert (settlement.outcome, settlement.delay) == ("nothing to do: too warm", timedelta(hours=1))


@pytest.mark.parametrize("shown", [one for one in SHOWN if one != COMPLETED])
def test_of_a_plan_without_an_instant_the_workers_word_is_enough(shown: Shown | None) -> None:
    """Also where the timeline cannot be read: it may not tell. Then the service waits for something new."""
    settlement = settle(Succeeded(figures={"instants_archived": 3}), shown, OFF_TIMELINE)

    assert (settlement.state, settlement.consequence) == (RunState.SUCCEEDED, Consequence.IDLE)
    assert settlement.figures == {"instants_archived": 3}


@pytest.mark.parametrize("ending", [DEAD, UNCLEAR])
def test_a_lost_run_without_an_instant_has_failed_and_is_asked_for_again(ending: Gone | Failed) -> None:
    """It is never looked for on the timeline, so it neither waits for it nor is put in quarantine for its absence."""
    settlement = settle(ending, ABSENT, OFF_TIMELINE)

    assert (settlement.state, settlement.consequence) == (RunState.FAILED, Consequence.STRIKE)
    assert settlement.outcome.endswith("the timeline does not show that it completed: the next run starts over")


def test_a_rewrite_of_all_files_ends_with_a_plan_that_finds_none() -> None:
    """Nothing else ends it: no success, no file that is too young, and no run of another kind."""
    none, later = NothingToDo(reason="none"), NothingToDo(reason="too young", again=timedelta(hours=1))

    assert ends_rewrite(none, OF_ALL)
    assert not ends_rewrite(later, OF_ALL)
    assert not ends_rewrite(none, PLANNING)
    for ending in (Succeeded(), Yielded(reason="a writer"), TEMPORARY, DEAD):
        assert not ends_rewrite(ending, OF_ALL)


def test_a_run_that_was_stopped_and_has_done_a_part_does_not_go_on_at_once() -> None:
    """What it has done counts, and its service waits, as after any run that an operator stops. One that has done all of
    its work before it was stopped waits for nothing.
    """
    ended = settle(BATCH, ABSENT, OFF_TIMELINE)
    stopped = after_cancel(ended)
    assert (stopped.state, stopped.figures) == (RunState.SUCCEEDED, ended.figures)
    assert (stopped.consequence, stopped.delay) == (Consequence.LATER, timedelta(minutes=10))
    whole = settle(Succeeded(), ABSENT, OFF_TIMELINE)
    assert after_cancel(whole) == whole
