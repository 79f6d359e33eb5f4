"""Explain a past moment, from what the store has kept of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pydantic import BaseModel

from lakewarden.planners.model.printable import printable
from lakewarden.service.model.history import DecisionChange
from lakewarden.service.model.run import Run

_WIDTH = 16
_SAYS = {
    "Due": "DUE",
    "NotDue": "not due",
    "WouldRun": "WOULD RUN",
    "Blocked": "BLOCKED",
    "DoesNotApply": "does not apply",
}


class PastDecision(BaseModel):
    """A decision of the past: `Due`, `NotDue`, `WouldRun`, `Blocked` or `DoesNotApply`, from `since` to `until`
    (null: it still holds).

    The numbers in its reason are those of its beginning.
    """

    decision: str
    reason: str
    remedy: str | None
    again_at: datetime | None
    since: datetime
    until: datetime | None


class PastRun(BaseModel):
    """A run that had been requested and had not ended at the moment. `outcome` is how it ended later."""

    id: str
    service: str
    reason: str
    requested_by: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    outcome: str | None


class PastServiceExplanation(BaseModel):
    """One service at a past moment."""

    decision: PastDecision | None
    runs: list[PastRun]


class PastExplanation(BaseModel):
    """What was decided on a table at a past moment, and what ran. A service that nothing is known of is left out."""

    table: str
    at: datetime
    services: dict[str, PastServiceExplanation]


def past_decision(change: DecisionChange) -> PastDecision:
    """Return a change of a decision as it is shown."""
    decision = change.decision
    return PastDecision(
        decision=decision.decision,
        reason=decision.reason,
        remedy=decision.remedy,
        again_at=decision.again_at,
        since=decision.decided_at,
        until=change.until,
    )


def explain_past(
    table: str, at: datetime, *, decisions: Sequence[DecisionChange], runs: Sequence[Run]
) -> PastExplanation:
    """Return the explanation of a moment: the decisions that held, and the open runs."""
    held = {change.decision.service: past_decision(change) for change in decisions}
    names = sorted({*held, *(run.service for run in runs)})
    return PastExplanation(
        table=table,
        at=at,
        services={
            service.value: PastServiceExplanation(
                decision=held.get(service),
                runs=[_run(run) for run in runs if run.service is service],
            )
            for service in names
        },
    )


def _run(run: Run) -> PastRun:
    return PastRun(
        id=run.id,
        service=run.service.value,
        reason=run.reason,
        requested_by=run.requested_by,
        created_at=run.created_at,
        started_at=run.started_at,
        ended_at=run.ended_at,
        outcome=run.outcome,
    )


def past_written_out(past: PastExplanation) -> str:
    """Return the explanation of a moment as text, without a line break at its end."""
    lines = [printable(f"{past.table}  at {past.at:%Y-%m-%d %H:%M:%S %Z}".rstrip())]
    for service, known in past.services.items():
        lines += ["", service, *(f"  {about:<{_WIDTH}}{printable(says)}".rstrip() for about, says in _said(known))]
    if not past.services:
        lines.append("\nnothing is known of that moment: no decision is kept from before it")
    return "\n".join(lines)


def _said(known: PastServiceExplanation) -> Sequence[tuple[str, str]]:
    lines = []
    if (decision := known.decision) is not None:
        lines.append((_SAYS.get(decision.decision, decision.decision), decision.reason))
        lines += [("", f"remedy: {decision.remedy}")] if decision.remedy else []
        until = "still" if decision.until is None else f"until {decision.until:%Y-%m-%d %H:%M:%S}"
        lines.append(("held", f"since {decision.since:%Y-%m-%d %H:%M:%S}, {until}"))
    for run in known.runs:
        end = "it is active" if run.ended_at is None else f"ended at {run.ended_at:%H:%M:%S}: {run.outcome}"
        lines.append(("run", f"{run.id}, {'queued' if run.started_at is None else 'started'}; {end}"))
    return lines
