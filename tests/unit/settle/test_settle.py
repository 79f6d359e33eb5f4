"""Settling: what a run is written down as, from its ending and the timeline, for every pair of them."""

from __future__ import annotations

import itertools
from datetime import timedelta

import pytest

from lakewarden.executors.contract import Failed, FailureKind, NothingToDo, Outcome, Step, Succeeded, Yielded
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.timeline import Fate
from lakewarden.service.settle import Aftermath, Gone, Settlement, settle
from lakewarden.service.store.port import RunState
from tests.support.values import a_run

ENDINGS: list[Outcome | Gone] = [
    Succeeded(figures={"files_written": 3}),
    NothingToDo(reason="no plan"),
    Yielded(reason="a writer is busy"),
    *(Failed(kind=kind, reason="it broke", step=step) for kind in FailureKind for step in Step),
    Gone(reason="the worker died"),
]
FATES: list[Fate | None] = [*Fate, None]
FINISHED = a_run(state=RunState.COMMITTING, step=Step.COMMIT, instant="00000020", epoch=1)
OFF_TIMELINE = a_run(state=RunState.COMMITTING, step=Step.COMMIT, service=Service.ARCHIVE, epoch=1)
EVERY_PAIR = list(itertools.product(ENDINGS, FATES))


def _leaves_a_doubt(ending: Outcome | Gone) -> bool:
    """Whether only the timeline can say how it ended."""
    match ending:
        case Succeeded() | Gone() | Failed(kind=FailureKind.UNKNOWN):
            return True
        case _:
            return False


@pytest.mark.parametrize("ending", ENDINGS, ids=repr)
def test_what_the_timeline_shows_as_completed_has_succeeded(ending: Outcome | Gone) -> None:
    """Whatever the worker said, or whether it lived to say it: the timeline is the truth."""
    settlement = settle(ending, Fate.COMPLETED, FINISHED)

    assert settlement.state is RunState.SUCCEEDED
    assert settlement.aftermath is Aftermath.NONE


@pytest.mark.parametrize(("ending", "fate"), EVERY_PAIR, ids=repr)
def test_without_a_completed_instant_only_nothing_to_do_is_a_success(ending: Outcome | Gone, fate: Fate | None) -> None:
    """A worker's word alone never makes a success, where the timeline could know."""
    if fate in (Fate.COMPLETED, Fate.ARCHIVED):
        return

    assert (settle(ending, fate, FINISHED).state is RunState.SUCCEEDED) is isinstance(ending, NothingToDo)


@pytest.mark.parametrize(("ending", "fate"), EVERY_PAIR, ids=repr)
def test_a_run_stays_unknown_exactly_while_the_timeline_is_needed_and_cannot_be_read(
    ending: Outcome | Gone, fate: Fate | None
) -> None:
    """Nothing is guessed, and nothing waits that is known."""
    unknown = settle(ending, fate, FINISHED).state is RunState.UNKNOWN

    assert unknown is (fate is None and _leaves_a_doubt(ending))


@pytest.mark.parametrize(("ending", "fate"), EVERY_PAIR, ids=repr)
def test_every_settlement_ends_the_run_or_waits_and_says_why(ending: Outcome | Gone, fate: Fate | None) -> None:
    """No run falls back into the queue or is settled without words."""
    settlement = settle(ending, fate, FINISHED)

    assert settlement.state.ended or settlement.state is RunState.UNKNOWN
    assert settlement.outcome


@pytest.mark.parametrize("fate", FATES)
def test_a_run_that_stepped_back_is_cancelled_and_nobody_is_to_blame(fate: Fate | None) -> None:
    """It rests a while and tries again."""
    if fate in (Fate.COMPLETED, Fate.ARCHIVED):
        return

    delay = timedelta(minutes=3)

    assert settle(Yielded(reason="a writer is busy", delay=delay), fate, FINISHED) == Settlement(
        state=RunState.CANCELLED, outcome="a writer is busy", aftermath=Aftermath.REST, delay=delay
    )


@pytest.mark.parametrize("fate", [Fate.ABSENT, Fate.PENDING])
@pytest.mark.parametrize(
    ("kind", "aftermath"),
    [
        (FailureKind.TEMPORARY, Aftermath.REST),
        (FailureKind.PERMANENT, Aftermath.QUARANTINE),
        (FailureKind.UNKNOWN, Aftermath.STRIKE),
    ],
)
def test_what_follows_a_failure_is_what_its_name_says(fate: Fate, kind: FailureKind, aftermath: Aftermath) -> None:
    """Temporary failures rest for the delay they name, permanent ones need a person, unexplained ones count."""
    delay = timedelta(seconds=150)

    settlement = settle(Failed(kind=kind, reason="it broke", step=Step.EXECUTE, delay=delay), fate, FINISHED)

    assert settlement == Settlement(state=RunState.FAILED, outcome="it broke", aftermath=aftermath, delay=delay)


def test_a_worker_that_died_strikes_and_tells_what_it_left_behind() -> None:
    """What is pending will be taken up by the ordinary road; a person can read which of the two it was."""
    pending, absent = (settle(Gone(reason="killed"), fate, FINISHED) for fate in (Fate.PENDING, Fate.ABSENT))

    assert pending.outcome == "killed; its instant is pending and will be taken up again"
    assert absent.outcome == "killed; it left no instant behind"
    assert {pending.aftermath, absent.aftermath} == {Aftermath.STRIKE}


def test_a_success_that_the_timeline_has_lost_needs_a_person() -> None:
    """The worker completed it and it is gone: somebody rolled it back. Still pending is merely a failure."""
    assert settle(Succeeded(), Fate.ABSENT, FINISHED).aftermath is Aftermath.QUARANTINE
    assert settle(Succeeded(), Fate.PENDING, FINISHED).aftermath is Aftermath.STRIKE


def test_figures_are_kept_with_a_success() -> None:
    """What the run did can be read from its row."""
    assert settle(Succeeded(figures={"files_written": 3}), Fate.COMPLETED, FINISHED).figures == {"files_written": 3}


@pytest.mark.parametrize("fate", [Fate.ABSENT, Fate.PENDING, None])
def test_nothing_to_do_makes_the_service_idle(fate: Fate | None) -> None:
    """It is not asked again before something is written."""
    assert settle(NothingToDo(reason="no plan"), fate, FINISHED).aftermath is Aftermath.IDLE


# -- instants that somebody else completed, and those that are archived


@pytest.mark.parametrize("step", [None, Step.PLAN, Step.EXECUTE])
@pytest.mark.parametrize("ending", ENDINGS, ids=repr)
def test_what_was_completed_without_our_leave_was_completed_by_another(
    ending: Outcome | Gone, step: Step | None
) -> None:
    """Two executors of one plan damage the table: the run has not succeeded, and a person should know."""
    run = a_run(state=RunState.RUNNING, step=step, instant="00000020", epoch=1)

    settlement = settle(ending, Fate.COMPLETED, run)

    assert (settlement.state, settlement.aftermath) == (RunState.CANCELLED, Aftermath.QUARANTINE)
    assert "instant 00000020 was completed by another executor" in settlement.outcome


@pytest.mark.parametrize("ending", ENDINGS, ids=repr)
def test_an_instant_that_was_archived_meanwhile_is_nobodys_fault(ending: Outcome | Gone) -> None:
    """It was completed or rolled back: nothing is run again, nobody is blamed, a success needs the worker's word."""
    settlement = settle(ending, Fate.ARCHIVED, FINISHED)

    assert settlement.aftermath is Aftermath.NONE
    assert settlement.state is (RunState.SUCCEEDED if isinstance(ending, Succeeded) else RunState.CANCELLED)
    assert "archived since" in settlement.outcome


# -- plans that are not on the timeline


@pytest.mark.parametrize("fate", [Fate.ABSENT, None])
def test_of_a_plan_without_an_instant_the_workers_word_is_enough(fate: Fate | None) -> None:
    """Also where the timeline cannot be read: it would not tell. Then the service waits for something new."""
    settlement = settle(Succeeded(figures={"instants_archived": 3}), fate, OFF_TIMELINE)

    assert (settlement.state, settlement.aftermath) == (RunState.SUCCEEDED, Aftermath.IDLE)
    assert settlement.figures == {"instants_archived": 3}


@pytest.mark.parametrize("fate", [Fate.ABSENT, None])
@pytest.mark.parametrize(
    "ending", [Gone(reason="killed"), Failed(kind=FailureKind.UNKNOWN, reason="killed", step=Step.COMMIT)]
)
def test_a_lost_run_without_an_instant_has_failed_and_is_asked_for_again(
    ending: Gone | Failed, fate: Fate | None
) -> None:
    """It is never looked for on the timeline, so it neither waits for it nor is put in quarantine for its absence."""
    settlement = settle(ending, fate, OFF_TIMELINE)

    assert (settlement.state, settlement.aftermath) == (RunState.FAILED, Aftermath.STRIKE)
    assert settlement.outcome.startswith("killed; the timeline cannot tell how it ended: it will be asked for again")


@pytest.mark.parametrize("step", [None, Step.PLAN])
def test_a_run_that_may_not_have_told_its_plan_is_looked_for_on_the_timeline(step: Step | None) -> None:
    """Only leave to execute proves that its plan has no instant."""
    run = a_run(service=Service.ARCHIVE, step=step)

    assert settle(Gone(reason="killed"), None, run).state is RunState.UNKNOWN
    assert settle(Gone(reason="killed"), Fate.ABSENT, run).outcome == "killed; it left no instant behind"
