"""Settling: what a run is written down as, from its ending and the timeline, for every pair of them."""

from __future__ import annotations

import itertools
from datetime import timedelta

import pytest

from lakewarden.executors.contract import Failed, FailureKind, NothingToDo, Outcome, Step, Succeeded, Yielded
from lakewarden.planners.model.timeline import Fate
from lakewarden.service.settle import Aftermath, Gone, Settlement, settle
from lakewarden.service.store.port import RunState

ENDINGS: list[Outcome | Gone] = [
    Succeeded(figures={"files_written": 3}),
    NothingToDo(reason="no plan"),
    Yielded(reason="a writer is busy"),
    *(Failed(kind=kind, reason="it broke", step=step) for kind in FailureKind for step in Step),
    Gone(reason="the worker died"),
]
FATES: list[Fate | None] = [*Fate, None]
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
    settlement = settle(ending, Fate.COMPLETED)

    assert settlement.state is RunState.SUCCEEDED
    assert settlement.aftermath is Aftermath.NONE


@pytest.mark.parametrize(("ending", "fate"), EVERY_PAIR, ids=repr)
def test_without_a_completed_instant_only_nothing_to_do_is_a_success(ending: Outcome | Gone, fate: Fate | None) -> None:
    """A worker's word alone never makes a success."""
    if fate is Fate.COMPLETED:
        return

    assert (settle(ending, fate).state is RunState.SUCCEEDED) is isinstance(ending, NothingToDo)


@pytest.mark.parametrize(("ending", "fate"), EVERY_PAIR, ids=repr)
def test_a_run_stays_unknown_exactly_while_the_timeline_is_needed_and_cannot_be_read(
    ending: Outcome | Gone, fate: Fate | None
) -> None:
    """Nothing is guessed, and nothing waits that is known."""
    unknown = settle(ending, fate).state is RunState.UNKNOWN

    assert unknown is (fate is None and _leaves_a_doubt(ending))


@pytest.mark.parametrize(("ending", "fate"), EVERY_PAIR, ids=repr)
def test_every_settlement_ends_the_run_or_waits_and_says_why(ending: Outcome | Gone, fate: Fate | None) -> None:
    """No run falls back into the queue or is settled without words."""
    settlement = settle(ending, fate)

    assert settlement.state.ended or settlement.state is RunState.UNKNOWN
    assert settlement.outcome


@pytest.mark.parametrize("fate", FATES)
def test_a_run_that_stepped_back_is_cancelled_and_nobody_is_to_blame(fate: Fate | None) -> None:
    """It rests a while and tries again."""
    if fate is Fate.COMPLETED:
        return

    delay = timedelta(minutes=3)

    assert settle(Yielded(reason="a writer is busy", delay=delay), fate) == Settlement(
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

    settlement = settle(Failed(kind=kind, reason="it broke", step=Step.EXECUTE, delay=delay), fate)

    assert settlement == Settlement(state=RunState.FAILED, outcome="it broke", aftermath=aftermath, delay=delay)


def test_a_worker_that_died_strikes_and_tells_what_it_left_behind() -> None:
    """What is pending will be taken up by the ordinary road; a person can read which of the two it was."""
    pending, absent = settle(Gone(reason="killed"), Fate.PENDING), settle(Gone(reason="killed"), Fate.ABSENT)

    assert pending.outcome == "killed; its instant is pending and will be taken up again"
    assert absent.outcome == "killed; it left no instant behind"
    assert {pending.aftermath, absent.aftermath} == {Aftermath.STRIKE}


def test_a_success_that_the_timeline_has_lost_needs_a_person() -> None:
    """The worker completed it and it is gone: somebody rolled it back. Still pending is merely a failure."""
    assert settle(Succeeded(), Fate.ABSENT).aftermath is Aftermath.QUARANTINE
    assert settle(Succeeded(), Fate.PENDING).aftermath is Aftermath.STRIKE


def test_figures_are_kept_with_a_success() -> None:
    """What the run did can be read from its row."""
    assert settle(Succeeded(figures={"files_written": 3}), Fate.COMPLETED).figures == {"files_written": 3}


@pytest.mark.parametrize("fate", [Fate.ABSENT, Fate.PENDING, None])
def test_nothing_to_do_makes_the_service_idle(fate: Fate | None) -> None:
    """It is not asked again before something is written."""
    assert settle(NothingToDo(reason="no plan"), fate).aftermath is Aftermath.IDLE
