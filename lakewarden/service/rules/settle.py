"""Settling: how a run ended. The facts are its row, the answer of its worker, and the timeline. Pure.

The same rules hold for a normal ending, a dead worker, a restart, and the runs of a dead replica. They settle rows
only. A plan that stays pending on the timeline is due again by itself, and runs in the ordinary way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from typing import assert_never

from lakewarden.executors.contract import GOES_ON, Failed, FailureKind, NothingToDo, Outcome, Succeeded, Yielded
from lakewarden.planners.model.instant import Fate, Step
from lakewarden.planners.model.printable import without_credentials
from lakewarden.planners.services import SERVICES
from lakewarden.service.model.run import Run, RunState

_AFTER_CANCEL = timedelta(minutes=10)


class Consequence(StrEnum):
    """What the ending of a run means for the next run of its service."""

    NONE = "none"
    """It went well. Earlier failures of the service are forgotten."""
    AGAIN = "again"
    """The service is not to blame, and nothing was learned. Its state stays as it was."""
    IDLE = "idle"
    """All work is done. The service waits until something is written."""
    LATER = "later"
    """There is nothing to do before the delay is over."""
    REST = "rest"
    """Try again after a delay. The service is not to blame."""
    SUSPECT = "suspect"
    """The JVM died while the run was in it together with others. Each of them may be to blame. Try again later,
    alone.
    """
    STRIKE = "strike"
    """Try again after a delay. Several in a row put the service in quarantine."""
    QUARANTINE = "quarantine"
    """Trying again changes nothing until an operator acts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Gone:
    """It is not known how the run ended, because its worker or the daemon died.

    `proved` says that its executor can change nothing any more. Until then it may still work on the table.
    `consequence` is what the death means for the service if the run turns out not to have succeeded.
    """

    reason: str
    proved: bool
    consequence: Consequence = Consequence.STRIKE


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """What the timeline, read whole, shows of the instant of a run. `beats`: a heartbeat guards it at this moment."""

    fate: Fate
    beats: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Settlement:
    """How the row of a run ends, and what follows. `delay` is the shortest time until the next try."""

    state: RunState
    outcome: str
    consequence: Consequence = Consequence.NONE
    figures: Mapping[str, int | float | str] = field(default_factory=dict)
    delay: timedelta = timedelta(seconds=5)


def settle(ending: Outcome | Gone, on_timeline: Shown | None, run: Run) -> Settlement:
    """Return how a run ended. `on_timeline` is None if its timeline cannot be read.

    The timeline decides. If it shows the instant as completed, the run has succeeded, whatever the worker said,
    provided that the run had a permit to commit. That an instant is pending or absent is believed only when no executor
    can work on it any more. Until then the run is UNKNOWN. It is also UNKNOWN while the timeline is needed and cannot
    be read. The worker's word counts only for a plan that is not on the timeline, if no commit has the run's id.

    An outcome may hold the text of an exception, and is told without credentials.
    """
    settlement = _settled(ending, on_timeline, run)
    settlement = replace(settlement, outcome=without_credentials(settlement.outcome))
    if run.rewrite_all is not None and settlement.consequence is Consequence.IDLE:
        # The plan left out what was written since the request, and an ordinary plan may find work there.
        return replace(settlement, consequence=Consequence.NONE)
    return settlement


def _settled(ending: Outcome | Gone, on_timeline: Shown | None, run: Run) -> Settlement:
    if on_timeline is not None and on_timeline.fate is Fate.COMPLETED:
        return _completed(ending, run)
    if isinstance(ending, Gone) and run.step is None:
        return _never_began(ending)
    doubt = _may_be_at_it(ending, on_timeline)
    if doubt is not None:
        return Settlement(state=RunState.UNKNOWN, outcome=doubt)
    if run.off_timeline:
        return _off_the_timeline(ending, None if on_timeline is None else on_timeline.fate)
    if on_timeline is not None and on_timeline.fate is Fate.ARCHIVED:
        return _archived(ending)
    return _unfinished(ending, None if on_timeline is None else on_timeline.fate)


def after_cancel(settlement: Settlement) -> Settlement:
    """Return how a run that an operator has stopped ends: as it was settled, and its service waits for ten minutes.

    So does the service of a run that has done a part of its work, and would go on at once. A run that has done all of
    it or has failed before it was stopped is settled as any other one.
    """
    if settlement.state is RunState.SUCCEEDED and settlement.figures.get(GOES_ON):
        outcome = "completed in part, and stopped"
        return replace(settlement, outcome=outcome, consequence=Consequence.LATER, delay=_AFTER_CANCEL)
    stopped = settlement.state in (RunState.CANCELLED, RunState.YIELDED)
    if not stopped or settlement.consequence is Consequence.QUARANTINE:
        return settlement
    return replace(settlement, state=RunState.CANCELLED, consequence=Consequence.REST, delay=_AFTER_CANCEL)


def ends_rewrite(ending: Outcome | Gone, run: Run) -> bool:
    """Whether a rewrite of all files has come to its end: the plan of this run has found no file that is left."""
    none_left = isinstance(ending, NothingToDo) and ending.again is None
    return none_left and run.rewrite_all is not None


def clears(ending: Outcome | Gone, run: Run) -> bool:
    """Whether an ending shows that the service does not kill its JVM: the worker reached the step that does the work.

    A run that yielded before that step, or failed while it planned, shows nothing.
    """
    works = Step.COMMIT if SERVICES[run.service].joined else Step.EXECUTE
    return not isinstance(ending, Gone) and run.step in (works, Step.COMMIT)


def completed_by_another(instant: str | None) -> str:
    """Return, for operators, that another executor has completed an instant that was ours to complete."""
    return f"instant {instant} was completed by another executor: two executors of one plan damage the table"


def _may_be_at_it(ending: Outcome | Gone, on_timeline: Shown | None) -> str | None:
    """Return why the executor of a run may still change the table, or None if it cannot."""
    match ending:
        case Gone():
            return None if ending.proved else ending.reason
        case Failed(kind=FailureKind.UNKNOWN):
            # The program has given up a step with an unknown result. While the heartbeat beats, its client goes on.
            beats = on_timeline is not None and on_timeline.fate is Fate.PENDING and on_timeline.beats
            return ending.reason if beats else None
        case Succeeded() | NothingToDo() | Yielded() | Failed():
            return None
        case _:
            assert_never(ending)


_NOT_SHOWN = "the timeline does not show that it completed: the next run starts over"


def _completed(ending: Outcome | Gone, run: Run) -> Settlement:
    if run.step is not Step.COMMIT:
        return Settlement(
            state=RunState.CANCELLED, outcome=completed_by_another(run.instant), consequence=Consequence.QUARANTINE
        )
    if isinstance(ending, Succeeded):
        return Settlement(state=RunState.SUCCEEDED, outcome="completed", figures=ending.figures)
    if isinstance(ending, NothingToDo):
        return Settlement(state=RunState.SUCCEEDED, outcome="completed")
    return Settlement(state=RunState.SUCCEEDED, outcome=f"the timeline shows it completed ({ending.reason})")


def _never_began(ending: Gone) -> Settlement:
    """Settle a run that had no permit for any step. It has not touched the table, and killed no JVM."""
    outcome = f"{ending.reason}; it had not begun"
    return Settlement(state=RunState.CANCELLED, outcome=outcome, consequence=Consequence.AGAIN)


def _archived(ending: Outcome | Gone) -> Settlement:
    if isinstance(ending, Succeeded):
        return Settlement(state=RunState.SUCCEEDED, outcome="completed, and archived since", figures=ending.figures)
    return Settlement(
        state=RunState.CANCELLED, outcome="its instant was completed or rolled back, and has been archived since"
    )


def _off_the_timeline(ending: Outcome | Gone, fate: Fate | None) -> Settlement:
    """Settle a run with a plan that is no instant, and without a commit that has the id of the run."""
    match ending:
        case Succeeded() if ending.figures.get(GOES_ON):
            return Settlement(
                state=RunState.SUCCEEDED, outcome="completed in part: the next run continues", figures=ending.figures
            )
        case Succeeded():
            # The format cannot count from an instant of it, so the service waits until something is written.
            return Settlement(
                state=RunState.SUCCEEDED, outcome="completed", figures=ending.figures, consequence=Consequence.IDLE
            )
        case Gone() | Failed(kind=FailureKind.UNKNOWN) if fate is None:
            return Settlement(state=RunState.UNKNOWN, outcome=ending.reason)  # it may have committed under its id
        case Gone():
            return _lost(ending, _NOT_SHOWN)
        case Failed(kind=FailureKind.UNKNOWN):
            outcome = f"{ending.reason}; {_NOT_SHOWN}"
            return Settlement(state=RunState.FAILED, outcome=outcome, consequence=Consequence.STRIKE)
        case NothingToDo() | Yielded() | Failed():
            return _unfinished(ending, Fate.ABSENT)
        case _:
            assert_never(ending)


def _unfinished(ending: Outcome | Gone, fate: Fate | None) -> Settlement:
    """Settle a run with an instant that is not seen as completed, and without an executor that may work on it."""
    match ending:
        case NothingToDo():
            return _found_nothing(ending)
        case Yielded():
            return Settlement(
                state=RunState.YIELDED, outcome=ending.reason, consequence=Consequence.REST, delay=ending.delay
            )
        case Succeeded():
            return _claims_success(ending, fate)
        case Failed():
            return _failed(ending, fate)
        case Gone():
            return _gone(ending, fate)
        case _:
            assert_never(ending)


def _found_nothing(ending: NothingToDo) -> Settlement:
    outcome = f"nothing to do: {ending.reason}"
    if ending.again is None:
        return Settlement(state=RunState.SUCCEEDED, outcome=outcome, consequence=Consequence.IDLE)
    return Settlement(state=RunState.SUCCEEDED, outcome=outcome, consequence=Consequence.LATER, delay=ending.again)


def _claims_success(ending: Succeeded, fate: Fate | None) -> Settlement:
    if fate is None:
        return Settlement(state=RunState.UNKNOWN, outcome="the worker says completed; the timeline cannot be read")
    return Settlement(
        state=RunState.FAILED,
        outcome=f"the worker says completed, but on the timeline the instant is {fate}",
        figures=ending.figures,
        # Absent: another program rolled it back or restored the table meanwhile. An operator should know.
        consequence=Consequence.QUARANTINE if fate is Fate.ABSENT else Consequence.STRIKE,
    )


def _failed(ending: Failed, fate: Fate | None) -> Settlement:
    match ending.kind:
        case FailureKind.UNKNOWN if fate is None:
            return Settlement(state=RunState.UNKNOWN, outcome=ending.reason)
        case FailureKind.UNKNOWN:
            consequence = Consequence.STRIKE
        case FailureKind.TEMPORARY:
            consequence = Consequence.REST
        case FailureKind.PERMANENT:
            consequence = Consequence.QUARANTINE
        case _:
            assert_never(ending.kind)
    return Settlement(state=RunState.FAILED, outcome=ending.reason, consequence=consequence, delay=ending.delay)


def _gone(ending: Gone, fate: Fate | None) -> Settlement:
    if fate is None:
        return Settlement(state=RunState.UNKNOWN, outcome=ending.reason)
    pending = fate is Fate.PENDING
    return _lost(
        ending, "its plan is still pending, and the next run continues it" if pending else "it left no plan behind"
    )


def _lost(ending: Gone, what_follows: str) -> Settlement:
    return Settlement(
        # A run that we ended ourselves has not failed.
        state=RunState.CANCELLED if ending.consequence is Consequence.AGAIN else RunState.FAILED,
        outcome=f"{ending.reason}; {what_follows}",
        consequence=ending.consequence,
    )
