"""Settling: what became of a run, from its row, how it ended, and what the timeline shows. Pure.

It serves the normal ending, a dead worker, a restart and a dead replica's runs alike. It settles rows only: what is
left pending on the timeline is due again by itself, and the ordinary road takes it up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import assert_never

from lakewarden.executors.contract import GOES_ON, Failed, FailureKind, NothingToDo, Outcome, Step, Succeeded, Yielded
from lakewarden.planners.model.timeline import Fate
from lakewarden.planners.services import SERVICES
from lakewarden.service.model.run import Run, RunState


class Aftermath(StrEnum):
    """What a run's ending means for the next one of its service."""

    NONE = "none"
    """It went well: nothing is held against the service any more."""
    AGAIN = "again"
    """Nobody is to blame, and nothing was learned: its standing stays what it was."""
    IDLE = "idle"
    """All that there was to do is done: wait for something to be written."""
    LATER = "later"
    """There is nothing to do before the delay is over."""
    REST = "rest"
    """Try again after a while: nobody is to blame."""
    SUSPECT = "suspect"
    """Its JVM died while it ran beside others, and any of them may be to blame: try again after a while, alone."""
    STRIKE = "strike"
    """Try again after a while; several in a row put the service in quarantine."""
    QUARANTINE = "quarantine"
    """Trying again changes nothing until a person acts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Gone:
    """Nobody can say how the run ended: its worker died, or the daemon did.

    `proved` tells that its executor can change nothing any more; until then it may still be at the table. `aftermath`
    is what the death means for the service, should it turn out not to have succeeded.
    """

    reason: str
    proved: bool
    aftermath: Aftermath = Aftermath.STRIKE


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """What the timeline, read whole, shows of a run's instant. `beats`: a heartbeat guards it at this moment."""

    fate: Fate
    beats: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Settlement:
    """How a run is written down, and what follows; `delay` is how long to rest at least."""

    state: RunState
    outcome: str
    aftermath: Aftermath = Aftermath.NONE
    figures: Mapping[str, int | float | str] = field(default_factory=dict)
    delay: timedelta = timedelta(seconds=5)


def settle(ending: Outcome | Gone, shown: Shown | None, run: Run) -> Settlement:
    """Return how a run is written down; `shown` is None while its timeline cannot be read.

    The timeline decides: what it shows as completed has succeeded, whatever the worker said, if the run had leave to
    commit. That an instant is pending, or absent, is believed only when nobody can be at it any more: until then, and
    while the timeline is needed and cannot be read, the run is UNKNOWN. Only of a plan that is not on the timeline, and
    of which no commit bears the run's name, the worker's word is all there is.
    """
    if shown is not None and shown.fate is Fate.COMPLETED:
        return _completed(ending, run)
    if isinstance(ending, Gone) and run.step is None:
        return _never_began(ending)
    doubt = _may_be_at_it(ending, shown)
    if doubt is not None:
        return Settlement(state=RunState.UNKNOWN, outcome=doubt)
    if run.off_timeline:
        return _off_the_timeline(ending, None if shown is None else shown.fate)
    if shown is not None and shown.fate is Fate.ARCHIVED:
        return _archived(ending)
    return _unfinished(ending, None if shown is None else shown.fate)


def clears(ending: Outcome | Gone, run: Run) -> bool:
    """Whether an ending shows that the run's service does not kill its JVM: its worker lived to tell of the step that
    works. A run that stepped back before that, or failed while it planned, shows nothing.
    """
    works = Step.COMMIT if SERVICES[run.service].joined else Step.EXECUTE
    return not isinstance(ending, Gone) and run.step in (works, Step.COMMIT)


def completed_by_another(instant: str | None) -> str:
    """Return, for people, that somebody else has completed an instant that was ours to complete."""
    return f"instant {instant} was completed by another executor: two executors of one plan damage the table"


def _may_be_at_it(ending: Outcome | Gone, shown: Shown | None) -> str | None:
    """Return what is known of a run whose executor may still change the table; None where it cannot."""
    match ending:
        case Gone():
            return None if ending.proved else ending.reason
        case Failed(kind=FailureKind.UNKNOWN):
            # The program has let go of what it does not know; while the heartbeat beats, its client has not.
            beats = shown is not None and shown.fate is Fate.PENDING and shown.beats
            return ending.reason if beats else None
        case Succeeded() | NothingToDo() | Yielded() | Failed():
            return None
        case _:
            assert_never(ending)


_NOT_SHOWN = "the timeline does not show that it completed: it is asked for again when due"


def _completed(ending: Outcome | Gone, run: Run) -> Settlement:
    if run.step is not Step.COMMIT:
        return Settlement(
            state=RunState.CANCELLED, outcome=completed_by_another(run.instant), aftermath=Aftermath.QUARANTINE
        )
    if isinstance(ending, Succeeded):
        return Settlement(state=RunState.SUCCEEDED, outcome="completed", figures=ending.figures)
    if isinstance(ending, NothingToDo):
        return Settlement(state=RunState.SUCCEEDED, outcome="completed")
    return Settlement(state=RunState.SUCCEEDED, outcome=f"the timeline shows it completed ({ending.reason})")


def _never_began(ending: Gone) -> Settlement:
    """Settle a run that had no leave to take any step: it has not touched the table, and killed nobody."""
    return Settlement(state=RunState.CANCELLED, outcome=f"{ending.reason}; it had not begun", aftermath=Aftermath.AGAIN)


def _archived(ending: Outcome | Gone) -> Settlement:
    if isinstance(ending, Succeeded):
        return Settlement(state=RunState.SUCCEEDED, outcome="completed, and archived since", figures=ending.figures)
    return Settlement(
        state=RunState.CANCELLED, outcome="its instant was completed or rolled back, and has been archived since"
    )


def _off_the_timeline(ending: Outcome | Gone, fate: Fate | None) -> Settlement:
    """Settle a run of whose plan there is no instant, and of which no commit is seen that bears its name."""
    match ending:
        case Succeeded() if ending.figures.get(GOES_ON):
            return Settlement(state=RunState.SUCCEEDED, outcome="completed, and goes on", figures=ending.figures)
        case Succeeded():
            # The format cannot count from an instant of it, so it waits for something to be written.
            return Settlement(
                state=RunState.SUCCEEDED, outcome="completed", figures=ending.figures, aftermath=Aftermath.IDLE
            )
        case Gone() | Failed(kind=FailureKind.UNKNOWN) if fate is None:
            return Settlement(state=RunState.UNKNOWN, outcome=ending.reason)  # it may have committed under its name
        case Gone():
            return _lost(ending, _NOT_SHOWN)
        case Failed(kind=FailureKind.UNKNOWN):
            outcome = f"{ending.reason}; {_NOT_SHOWN}"
            return Settlement(state=RunState.FAILED, outcome=outcome, aftermath=Aftermath.STRIKE)
        case NothingToDo() | Yielded() | Failed():
            return _unfinished(ending, Fate.ABSENT)
        case _:
            assert_never(ending)


def _unfinished(ending: Outcome | Gone, fate: Fate | None) -> Settlement:
    """Settle a run whose instant is not seen as completed, and that nobody is at."""
    match ending:
        case NothingToDo():
            return _found_nothing(ending)
        case Yielded():
            return Settlement(
                state=RunState.CANCELLED, outcome=ending.reason, aftermath=Aftermath.REST, delay=ending.delay
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
        return Settlement(state=RunState.SUCCEEDED, outcome=outcome, aftermath=Aftermath.IDLE)
    return Settlement(state=RunState.SUCCEEDED, outcome=outcome, aftermath=Aftermath.LATER, delay=ending.again)


def _claims_success(ending: Succeeded, fate: Fate | None) -> Settlement:
    if fate is None:
        return Settlement(state=RunState.UNKNOWN, outcome="the worker says completed; the timeline cannot be read")
    return Settlement(
        state=RunState.FAILED,
        outcome=f"the worker says completed, but on the timeline the instant is {fate}",
        figures=ending.figures,
        # Absent: rolled back or restored under us, and a person should know.
        aftermath=Aftermath.QUARANTINE if fate is Fate.ABSENT else Aftermath.STRIKE,
    )


def _failed(ending: Failed, fate: Fate | None) -> Settlement:
    match ending.kind:
        case FailureKind.UNKNOWN if fate is None:
            return Settlement(state=RunState.UNKNOWN, outcome=ending.reason)
        case FailureKind.UNKNOWN:
            aftermath = Aftermath.STRIKE
        case FailureKind.TEMPORARY:
            aftermath = Aftermath.REST
        case FailureKind.PERMANENT:
            aftermath = Aftermath.QUARANTINE
        case _:
            assert_never(ending.kind)
    return Settlement(state=RunState.FAILED, outcome=ending.reason, aftermath=aftermath, delay=ending.delay)


def _gone(ending: Gone, fate: Fate | None) -> Settlement:
    if fate is None:
        return Settlement(state=RunState.UNKNOWN, outcome=ending.reason)
    pending = fate is Fate.PENDING
    return _lost(
        ending, "its instant is pending and will be taken up again" if pending else "it left no instant behind"
    )


def _lost(ending: Gone, what_follows: str) -> Settlement:
    return Settlement(
        # What we ended ourselves has not failed.
        state=RunState.CANCELLED if ending.aftermath is Aftermath.AGAIN else RunState.FAILED,
        outcome=f"{ending.reason}; {what_follows}",
        aftermath=ending.aftermath,
    )
