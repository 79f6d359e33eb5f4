"""Why the services of a table run or do not, what a request for a run would meet, and what writers have to set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fastapi import FastAPI, Query
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.decision import Due, WouldRun
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.ports import SPARK, TableFormat, WriterEngine
from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.control.table_statuses import TableStatus
from lakewarden.service.http.access.roles import needs
from lakewarden.service.http.errors import ApiError, errors
from lakewarden.service.http.query.pages import Moment
from lakewarden.service.http.reach import answered, policy_of, registered
from lakewarden.service.model.access import Role
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.reporting.explain import PastExplanation, TableExplanation, explain, explain_past
from lakewarden.service.reporting.explain.dry_run import DryRunExplanation, explain_dry_run
from lakewarden.service.reporting.forecasts import of_run, of_table
from lakewarden.service.reporting.writer_options import WriterOptionsBody, engine_of, options_of
from lakewarden.service.rules.permits import worst_hold

_RUNS_LOOKED_AT = 1000
_ENDED = tuple(state for state in RunState if state.ended)


@dataclass(frozen=True, kw_only=True, slots=True)
class WriterPart:
    """What the options of writers depend on beside the table. `url` is the address of the API as writers reach it.
    `with_keys`: hooks need an API key.
    """

    url: str
    formats: Mapping[str, TableFormat]
    with_keys: bool

    def of(self, table: Table, runs: Iterable[Run], engine: WriterEngine) -> WriterOptionsBody:
        """Return the options of a writer. Raises PermanentError if the settings of the table leave one open."""
        held = worst_hold(run for run in runs if run.state is RunState.SUCCEEDED)
        table_format = self.formats[table.format]
        return options_of(table, table_format, engine=engine, url=self.url, held=held, with_key=self.with_keys)


def add_explain(app: FastAPI, plane: ControlPlane, clock: Clock, writers: WriterPart) -> None:
    """Add the routes."""
    engines = list(dict.fromkeys(engine.name for known in writers.formats.values() for engine in known.writer_engines))
    engine_query: Any = Query(default=SPARK.name, json_schema_extra={"enum": [*engines]})

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

    @app.get(
        "/v1/tables/{table}/writer-options", responses=errors(404, 409, 422, 503), openapi_extra=needs(Role.VIEWER)
    )
    def writer_options(table: str, engine: str = engine_query) -> WriterOptionsBody:
        """Return the options that a writer of the table must set. 409 if the settings of the table leave one open."""
        status = registered(plane, table)
        if engine not in engines:
            raise HTTPException(422, f"{engine!r} is not an engine: use one of {', '.join(engines)}")
        writer = engine_of(status.table, writers.formats[status.table.format], engine)
        runs = plane.runs(table=status.table.id, states=(RunState.SUCCEEDED,), limit=_RUNS_LOOKED_AT)
        return writers.of(status.table, runs, writer)


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
