"""The past: what was decided on a table, what was written during a run, and who did what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request, Response
from pydantic import BaseModel

from lakewarden.executors.pool.listening import LogLine
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import TableId
from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.http.access.roles import caller_of, needs
from lakewarden.service.http.errors import ApiError, errors
from lakewarden.service.http.query.pages import PAGED, Limit, Name, Page, link_to_next
from lakewarden.service.http.reach import registered, run_for
from lakewarden.service.model.access import ActKind, Role
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.reporting.event_log import written_out
from lakewarden.service.reporting.explain.assembly import PastDecision, past_decision


class DecisionChangeBody(PastDecision):
    """A decision on one service, from `since` to `until` (null: it still holds)."""

    service: Service


class DecisionPage(Page[DecisionChangeBody]):
    """One page of decisions."""


TEXT = "text/plain"


class LogLineBody(BaseModel):
    """One line. `source` is `worker`, `jvm` or `daemon`. `at` is null if the source wrote no time.

    `fields` are further facts, such as `table`, `epoch` and `instant`. A number that is left out is a line that was
    deleted, because the log was too long (`history.run_log`).
    """

    number: int
    at: str | None
    source: str
    level: str | None
    logger: str | None
    message: str
    fields: dict[str, str]


class LogPage(Page[LogLineBody]):
    """One page of the log of a run."""


_ANSWERS: Mapping[int | str, dict[str, Any]] = {
    **PAGED,
    200: {**PAGED[200], "content": {TEXT: {"schema": {"type": "string"}}}},
}


class ActBody(BaseModel):
    """One act of a person or a program.

    `key` is the id of the API key, or the place of its secret. It is null if no key was asked for. `before` and `after`
    are what the act changed. `number` rises with each act.
    """

    number: int
    at: datetime
    who: str
    key: str | None
    kind: ActKind
    table: str | None
    service: str | None
    before: str | None
    after: str | None


class ActPage(Page[ActBody]):
    """One page of acts."""


def add_history(app: FastAPI, plane: ControlPlane) -> None:
    """Add the routes."""

    @app.get(
        "/v1/tables/{table}/decisions",
        responses={**PAGED, **errors(404, 422, 503)},
        openapi_extra=needs(Role.VIEWER),
    )
    def decisions(
        *,
        table: str,
        request: Request,
        response: Response,
        service: Service | None = None,
        after: Annotated[int | None, Query(ge=1, le=2**53)] = None,
        limit: Limit = 100,
    ) -> DecisionPage:
        """Return the decisions on a table, the newest first, as far as the store has kept them.

        A decision begins when its kind, its remedy or its reason changes. Other numbers in a reason are no change.
        """
        of = registered(plane, table).table.id
        changes = plane.history().decision_changes(of, service=service, before=after, limit=limit + 1)
        cursor = str(changes[limit - 1].number) if len(changes) > limit else None
        link_to_next(request, response, cursor)
        return DecisionPage(
            items=[
                DecisionChangeBody(service=change.decision.service, **past_decision(change).model_dump())
                for change in changes[:limit]
            ],
            next=cursor,
        )

    @app.get(
        "/v1/runs/{run}/log",
        responses={**_ANSWERS, **errors(404, 422, 503)},
        response_model=LogPage,
        openapi_extra=needs(Role.VIEWER),
    )
    def run_log(
        *,
        run: str,
        request: Request,
        response: Response,
        after: Annotated[int, Query(ge=0, le=2**53)] = 0,
        limit: Limit = 1000,
    ) -> LogPage | Response:
        """Return what the worker and its JVM wrote during a run, the oldest line first.

        With `Accept: text/plain` the answer is text. `after` is the number of the last line that is known. The log
        is on the disk of the replica that carried out the run. Another replica passes the request on.
        """
        lines = log_of(plane, run_for(plane, run, caller_of(request)), after=after, limit=limit + 1)
        page = lines[:limit]
        cursor = str(page[-1].number) if len(lines) > limit else None
        accepted = request.headers.get("accept", "")
        if not any(kind in accepted for kind in (TEXT, "text/html")):  # a browser shows text
            link_to_next(request, response, cursor)
            return LogPage(items=[LogLineBody.model_validate(line, from_attributes=True) for line in page], next=cursor)
        answer = Response("".join(f"{line}\n" for line in written_out(page, after=after)), media_type=TEXT)
        link_to_next(request, answer, cursor)
        return answer

    @app.get("/v1/audit", responses={**PAGED, **errors(422, 503)}, openapi_extra=needs(Role.ADMIN, whole=True))
    def audit(
        *,
        request: Request,
        response: Response,
        table: Name = None,
        after: Annotated[int | None, Query(ge=1, le=2**31 - 1)] = None,
        limit: Limit = 100,
    ) -> ActPage:
        """Return the acts of persons and programs, the newest first.

        `after` is the number of the act after which the page begins. The acts of the page are older.
        """
        acts = plane.acts(table=None if table is None else TableId(table), before=after, limit=limit + 1)
        cursor = str(acts[limit - 1].number) if len(acts) > limit else None
        link_to_next(request, response, cursor)
        return ActPage(items=[ActBody.model_validate(act, from_attributes=True) for act in acts[:limit]], next=cursor)


def log_of(plane: ControlPlane, run: Run, *, after: int = 0, limit: int) -> Sequence[LogLine]:
    """Return lines of a run. Raises ApiError (404) if its log is not here."""
    lines = plane.run_log(run.id, after=after, limit=limit)
    if lines is not None:
        return lines
    if run.owner is None or run.state is RunState.QUEUED:
        return []
    owner = next((replica for replica in plane.replicas() if replica.id == run.owner), None)
    if owner is not None and owner.here:
        if not run.state.ended:
            return []
        raise ApiError(404, "not_found", f"the log of run {run.id} is deleted: history.run_logs says how much is kept")
    gone = f"the log of run {run.id} is not here: replica {run.owner} carried it out, and its disk has the log"
    detail = f"{gone}. That replica has ended" if owner is None or not owner.alive else gone
    raise ApiError(404, "not_found", detail, "collect the logs of all workers with log.workers to keep them elsewhere")
