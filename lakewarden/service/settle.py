"""Settling: what became of a run, from how it ended and what the timeline says. Pure.

It serves the normal ending, a dead worker and a restart alike. It settles rows only: what is left pending on
the timeline is due again by itself, and the ordinary road takes it up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import assert_never

from lakewarden.executors.contract import Failed, FailureKind, NothingToDo, Outcome, Succeeded, Yielded
from lakewarden.planners.model.timeline import Fate
from lakewarden.service.store.port import RunState


@dataclass(frozen=True, kw_only=True, slots=True)
class Gone:
    """Nobody can say how the run ended: its worker died, or the daemon did."""

    reason: str


class Aftermath(StrEnum):
    """What a run's ending means for the next one of its service."""

    NONE = "none"
    IDLE = "idle"
    """There was no work: wait for something to be written."""
    REST = "rest"
    """Try again after a while: nobody is to blame."""
    STRIKE = "strike"
    """Try again after a while; several in a row put the service in quarantine."""
    QUARANTINE = "quarantine"
    """Trying again changes nothing until a person acts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Settlement:
    """How a run is written down, and what follows; `delay` is how long to rest at least."""

    state: RunState
    outcome: str
    aftermath: Aftermath = Aftermath.NONE
    figures: Mapping[str, int | float | str] = field(default_factory=dict)
    delay: timedelta = timedelta(seconds=5)


def settle(ending: Outcome | Gone, fate: Fate | None) -> Settlement:
    """Return how a run is written down; `fate` is None while its timeline cannot be read.

    The timeline decides: what it shows as completed has succeeded, whatever the worker said; a run whose ending
    the worker does not know stays UNKNOWN until the timeline can be read.
    """
    if fate is Fate.COMPLETED:
        return _completed(ending)
    match ending:
        case NothingToDo():
            return Settlement(
                state=RunState.SUCCEEDED, outcome=f"nothing to do: {ending.reason}", aftermath=Aftermath.IDLE
            )
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


def _completed(ending: Outcome | Gone) -> Settlement:
    if isinstance(ending, Succeeded):
        return Settlement(state=RunState.SUCCEEDED, outcome="completed", figures=ending.figures)
    if isinstance(ending, NothingToDo):
        return Settlement(state=RunState.SUCCEEDED, outcome="completed")
    return Settlement(state=RunState.SUCCEEDED, outcome=f"the timeline shows it completed ({ending.reason})")


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
    match fate:
        case None:
            return Settlement(state=RunState.UNKNOWN, outcome=ending.reason)
        case Fate.PENDING:
            return Settlement(
                state=RunState.FAILED,
                outcome=f"{ending.reason}; its instant is pending and will be taken up again",
                aftermath=Aftermath.STRIKE,
            )
        case Fate.ABSENT:
            return Settlement(
                state=RunState.FAILED,
                outcome=f"{ending.reason}; it left no instant behind",
                aftermath=Aftermath.STRIKE,
            )
        case Fate.COMPLETED:
            return _completed(ending)
        case _:
            assert_never(fate)
