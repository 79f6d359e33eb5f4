"""What a request for a run would meet now: the decision on it, and what the run would do."""

from __future__ import annotations

from pydantic import BaseModel

from lakewarden.planners.model.decision import Decision, Due, WouldRun, remedy_of
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import TableId
from lakewarden.service.model.run import Run
from lakewarden.service.reporting.explain.assembly import forecast_explained
from lakewarden.service.reporting.explain.bodies import ForecastExplanation
from lakewarden.service.reporting.explain.text import forecast_in_words
from lakewarden.service.rules.forecast import Forecast


class DryRunExplanation(BaseModel):
    """What a request for a run would meet now. Nothing was changed.

    `begins` says whether a run would begin. If not, `reason` says why, and `remedy` what an operator has to do. The
    decision is made as for that request: the trigger and the window are skipped, a block is not. `instant` is the
    pending plan that the run would take up. Without it the run would make a plan. `active_run` is a run of the service
    that is active: it would be the answer. `forecast` is what the run would do, by the table and by earlier runs. Null:
    the table shows no work for it. `says` is the whole in words.
    """

    table: str
    service: str
    begins: bool
    decision: str
    code: str
    reason: str
    remedy: str | None
    instant: str | None
    active_run: str | None
    forecast: ForecastExplanation | None
    says: str


def explain_dry_run(
    table: TableId,
    service: Service,
    decision: Decision,
    *,
    active: Run | None,
    forecast: Forecast | None,
) -> DryRunExplanation:
    """Return the answer to a dry run. `active` is the run of the service that has not ended."""
    begins = active is None and isinstance(decision, Due)
    forecast_body = forecast_explained(forecast)
    instant = decision.instant if isinstance(decision, Due | WouldRun) else None
    return DryRunExplanation(
        table=table,
        service=service,
        begins=begins,
        decision=type(decision).__name__,
        code=decision.code,
        reason=decision.reason,
        remedy=remedy_of(decision),
        instant=instant,
        active_run=None if active is None else active.id,
        forecast=forecast_body,
        says=_in_words(service, decision, active, instant, forecast_body),
    )


def _in_words(
    service: Service, decision: Decision, active: Run | None, instant: str | None, forecast: ForecastExplanation | None
) -> str:
    if active is not None:
        return f"no run would begin: run {active.id[:8]} of {service} is active"
    if isinstance(decision, WouldRun):
        return f"no run would begin: the mode of the table only lets it be planned. A run {_would(instant, forecast)}"
    if not isinstance(decision, Due):
        return f"no run would begin: {decision.reason}"
    return f"a run would begin now. It {_would(instant, forecast)}"


def _would(instant: str | None, forecast: ForecastExplanation | None) -> str:
    plan = "would make a plan" if instant is None else f"would take up the plan {instant}"
    if forecast is None:
        return f"{plan}. The table shows no work for it"
    return f"{plan}. What is known of its work: {forecast_in_words(forecast)}"
