"""Why the services of a table run or do not (`explain`), and what a request for a run would meet (`dry-run`)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from fastapi import FastAPI, Query
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.decision import Due, WouldRun
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import TableId
from lakewarden.planners.ports import SPARK, TableFormat
from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.control.table_statuses import TableStatus
from lakewarden.service.http.access.roles import needs
from lakewarden.service.http.errors import ApiError, errors
from lakewarden.service.http.query.pages import Moment
from lakewarden.service.http.registered import answered, policy_of, registered
from lakewarden.service.model.access import Role
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.reporting.explain import PastExplanation, TableExplanation, explain, explain_past
from lakewarden.service.reporting.explain.dry_run import DryRunExplanation, explain_dry_run
from lakewarden.service.reporting.forecasts import of_run, of_table
from lakewarden.service.reporting.writer_options import WriterOptionsBody, engine_of, options_of
from lakewarden.service.rules.permits import worst_hold

_ENDED = tuple(state for state in RunState if state.ended)


def add_explain(app: FastAPI, plane: ControlPlane, clock: Clock) -> None:
    """Add the routes."""

    @app.get("/v1/tables/{table}/explain", responses=errors(404, 409, 422, 503), openapi_extra=needs(Role.VIEWER))
    def explain_table(table: str, at: Moment | None = None) -> TableExplanation | PastExplanation:
        """Explain a table: what blocks it, what its writers do, and the decision on each service with its reason.

        With `at` the answer is what was decided and what ran at that past moment, as far as the store has kept it.
        """
        status = registered(plane, table)
        return explained(plane, status, clock) if at is None else explained_at(plane, status, at, now=clock.now())

    @app.get(
        "/v1/tables/{table}/services/{service}/dry-run",
        responses=errors(404, 409, 503),
        openapi_extra=needs(Role.VIEWER),
    )
    async def dry_run(table: str, service: str) -> DryRunExplanation:
        """Say what `POST .../runs` would do now: whether a run would begin, and the work that it would do.

        The table is looked at for that. Nothing is changed, and no run is made. The work is that of all that has piled
        up. A run may do it in parts.
        """
        status = registered(plane, table)
        wanted = policy_of(status, service)
        answer = await answered(plane.commands.dry_run(status.table.id, wanted))
        instant = answer.decision.instant if isinstance(answer.decision, Due | WouldRun) else None
        forecast = await run_in_threadpool(of_run, plane, status.table, wanted, answer.view, instant=instant)
        return explain_dry_run(status.table.id, wanted, answer.decision, active=answer.active, forecast=forecast)


def explained_at(plane: ControlPlane, status: TableStatus, at: datetime, *, now: datetime) -> PastExplanation:
    """Return the explanation of a past moment. Raises ApiError (409) if it is not past, and TemporaryError if the store
    does not answer.
    """
    if at > now:
        raise ApiError(
            409, "blocked", f"the moment {at.isoformat()} is not past", "leave at out to explain the present"
        )
    history, table = plane.history(), status.table.id
    return explain_past(
        table,
        at,
        decisions=history.decisions_at(table, at),
        runs=history.runs_at(table, at),
    )


def explained(plane: ControlPlane, status: TableStatus, clock: Clock) -> TableExplanation:
    """Return the explanation of a table. Raises TemporaryError if the store does not answer."""
    return explain(
        status,
        decided=plane.decided(status.table.id),
        last_runs={
            service: run
            for service in status.table.policies
            if (run := _last_run(plane, status.table.id, service)) is not None
        },
        waiting=plane.waiting(),
        now=clock.now(),
        polled_ago=plane.polled_ago(status.table.id),
        forecasts=of_table(plane, status),
    )


def _last_run(plane: ControlPlane, table: TableId, service: Service) -> Run | None:
    return next(iter(plane.runs(table=table, service=service, states=_ENDED, limit=1)), None)


# `GET /v1/tables/{table}/writer-options`: the options that a writer of a table must set beside Lakewarden.

_RUNS_LOOKED_AT = 1000


def add_writer_options(
    app: FastAPI, plane: ControlPlane, *, url: str, formats: Mapping[str, TableFormat], with_keys: bool = False
) -> None:
    """Add the route. `url` is the address of the API, as writers reach it. `with_keys`: hooks need an API key."""
    engines = list(
        dict.fromkeys(engine.name for table_format in formats.values() for engine in table_format.writer_engines)
    )

    engine_query: Any = Query(default=SPARK.name, json_schema_extra={"enum": [*engines]})

    @app.get(
        "/v1/tables/{table}/writer-options", responses=errors(404, 409, 422, 503), openapi_extra=needs(Role.VIEWER)
    )
    def writer_options(table: str, engine: str = engine_query) -> WriterOptionsBody:
        """Return the options that a writer of the table must set. 409 if the settings of the table leave one open."""
        status = registered(plane, table)
        if engine not in engines:
            raise HTTPException(422, f"{engine!r} is no engine: it is one of {', '.join(engines)}")
        table_format = formats[status.table.format]
        runs = plane.runs(table=status.table.id, states=(RunState.SUCCEEDED,), limit=_RUNS_LOOKED_AT)
        writer = engine_of(status.table, table_format, engine)
        return options_of(status.table, table_format, engine=writer, url=url, held=worst_hold(runs), with_key=with_keys)
