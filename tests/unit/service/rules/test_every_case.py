"""Settling, exhaustively: every state, step, ending, and state of the timeline that there is."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from lakewarden.executors.contract import Failed, FailureKind, NothingToDo, Outcome, Succeeded, Yielded
from lakewarden.planners.model.instant import Fate, Step
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.rules.settle import Consequence, Gone, Settlement, Shown, settle
from tests.support.values import a_run

ENDINGS: list[Outcome | Gone] = [
    Succeeded(figures={"files_added": 3}),
    NothingToDo(reason="no plan"),
    Yielded(reason="a writer is busy"),
    *(Failed(kind=kind, reason="it broke", step=step) for kind in FailureKind for step in Step),
    *(
        Gone(reason="the worker died", proved=proved, consequence=consequence)
        for proved in (True, False)
        for consequence in (Consequence.STRIKE, Consequence.SUSPECT, Consequence.AGAIN)
    ),
]
SHOWN: list[Shown | None] = [None, *(Shown(fate=fate, beats=beats) for fate in Fate for beats in (False, True))]
RUNS = [
    a_run(state=state, step=step, instant=instant, epoch=1)
    for state in (RunState.RUNNING, RunState.COMMITTING, RunState.UNKNOWN)
    for step in (None, *Step)
    for instant in (None, "00000020")
]


class Case(NamedTuple):
    """One of all cases, and what is made of it."""

    ending: Outcome | Gone
    shown: Shown | None
    run: Run

    @property
    def settlement(self) -> Settlement:
        """What the run is written down as."""
        return settle(self.ending, self.shown, self.run)

    @property
    def completed(self) -> bool:
        """Whether the timeline shows the run's instant as completed."""
        return self.shown is not None and self.shown.fate is Fate.COMPLETED

    @property
    def may_be_alive(self) -> bool:
        """Whether the executor may still be at the table, for all that is known."""
        match self.ending:
            case Gone(proved=proved):
                return not proved and self.run.step is not None
            case Failed(kind=FailureKind.UNKNOWN):
                return self.shown == Shown(fate=Fate.PENDING, beats=True)
            case _:
                return False

    @property
    def needs_the_timeline(self) -> bool:
        """Whether only the timeline can say how it ended."""
        match self.ending:
            case Gone():
                return self.run.step is not None
            case Failed(kind=FailureKind.UNKNOWN):
                return True
            case Succeeded():
                return not self.run.off_timeline
            case _:
                return False


def every_case() -> Iterator[Case]:
    """Go through all cases."""
    return itertools.starmap(Case, itertools.product(ENDINGS, SHOWN, RUNS))


def test_every_case_has_an_ending_or_waits_and_says_why() -> None:
    """The function is total, gives the same answer twice, and no run falls back into the queue."""
    for case in every_case():
        settlement = case.settlement

        assert settlement == case.settlement, case
        assert settlement.state.ended or settlement.state is RunState.UNKNOWN, case
        assert settlement.outcome, case


def test_how_a_run_is_settled_does_not_depend_on_what_its_row_was_called() -> None:
    """A run that was UNKNOWN for an hour ends as it would have ended at once."""
    for case in every_case():
        assert case.settlement == settle(case.ending, case.shown, replace(case.run, state=RunState.UNKNOWN)), case


def test_nothing_succeeds_without_the_timeline_or_without_a_plan_on_it() -> None:
    """A worker's word alone never makes a success where the timeline could know: only where it cannot."""
    for case in every_case():
        if case.settlement.state is not RunState.SUCCEEDED or isinstance(case.ending, NothingToDo):
            continue
        archived = case.shown is not None and case.shown.fate is Fate.ARCHIVED
        by_its_word = isinstance(case.ending, Succeeded) and (case.run.off_timeline or archived)
        assert by_its_word or (case.completed and case.run.step is Step.COMMIT), case


def test_what_is_completed_is_believed_at_once_and_never_run_again() -> None:
    """Whoever may still be alive, and whatever the worker said: completed by us, or by another, who is told of."""
    for case in every_case():
        if not case.completed:
            continue
        settlement = case.settlement
        ours = case.run.step is Step.COMMIT
        assert settlement.state is (RunState.SUCCEEDED if ours else RunState.CANCELLED), case
        assert settlement.consequence is (Consequence.NONE if ours else Consequence.QUARANTINE), case


def test_no_run_ends_while_its_executor_may_be_at_the_table() -> None:
    """Pending, absent and archived are believed only of an executor that is proved gone or has let go."""
    for case in every_case():
        if case.may_be_alive and not case.completed:
            assert case.settlement.state is RunState.UNKNOWN, case


def test_no_ending_is_guessed_while_the_timeline_cannot_be_read() -> None:
    """Where only the timeline knows, its silence is waited out."""
    for case in every_case():
        if case.shown is None and case.needs_the_timeline:
            assert case.settlement.state is RunState.UNKNOWN, case


def test_no_run_waits_for_what_is_known() -> None:
    """It is UNKNOWN only for one of the two reasons there are."""
    for case in every_case():
        if case.settlement.state is RunState.UNKNOWN:
            assert case.may_be_alive or (case.shown is None and case.needs_the_timeline), case


def test_every_unknown_run_ends_once_its_executor_is_gone_and_the_timeline_is_read() -> None:
    """UNKNOWN is not an ending."""
    for case in every_case():
        if case.settlement.state is not RunState.UNKNOWN:
            continue
        gone = replace(case.ending, proved=True) if isinstance(case.ending, Gone) else case.ending
        for fate in Fate:
            assert settle(gone, Shown(fate=fate), case.run).state.ended, case


def test_a_death_blames_nobody_more_than_its_circumstances_do() -> None:
    """Who died beside others, or by our own hand, is not struck for it."""
    for case in every_case():
        if isinstance(case.ending, Gone) and not case.completed:
            assert case.settlement.consequence in (case.ending.consequence, Consequence.AGAIN, Consequence.NONE), case


def test_a_run_without_leave_for_any_step_is_settled_without_proof_and_without_blame() -> None:
    """It had not touched the table, so nothing has to be looked at and nobody waited for."""
    for case in every_case():
        if isinstance(case.ending, Gone) and case.run.step is None and not case.completed:
            settlement = case.settlement
            assert (settlement.state, settlement.consequence) == (RunState.CANCELLED, Consequence.AGAIN), case
