"""The lists of tables and runs: filters, and pages by a cursor."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated

from fastapi import Depends, FastAPI, Query, Request, Response

from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.decision import Blocked
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import Mode, TableId
from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.control.table_statuses import TableStatus
from lakewarden.service.http.access.roles import caller_of, needs
from lakewarden.service.http.errors import Answer, ApiError, errors
from lakewarden.service.http.query.pages import PAGED, Limit, Name, Page, cut, link_to_next
from lakewarden.service.http.reach import run_bodies, tables_for
from lakewarden.service.http.schemas import RunBody, TableBody, table_body
from lakewarden.service.model.access import Caller, Role
from lakewarden.service.model.run import Run, RunState

_LOOKED_AT = 1000
"""So many runs are looked at for a caller that may not see all of them."""

_VIEWER = needs(Role.VIEWER)


class TablePage(Page[TableBody]):
    """One page of tables."""


class RunPage(Page[RunBody]):
    """One page of runs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TableFilter:
    """Which tables a caller asks for. None asks for all. `pattern` is for the id, with `*` and `?`.

    `label` is a name, or `NAME=VALUE`.
    """

    pattern: str | None = None
    format: str | None = None
    mode: Mode | None = None
    blocked: bool | None = None
    failing: bool | None = None
    paused: bool | None = None
    label: str | None = None

    def among(self, statuses: Sequence[TableStatus]) -> Sequence[TableStatus]:
        """Return the tables that are asked for."""
        return statuses if self == _EVERY else [status for status in statuses if self.admits(status)]

    def admits(self, status: TableStatus) -> bool:
        """Whether a table is asked for."""
        table = status.table
        pairs = (
            (self.format, table.format),
            (self.mode, table.mode),
            (self.blocked, any(isinstance(decision, Blocked) for decision in status.decisions.values())),
            (self.failing, status.failure is not None),
            (self.paused, status.paused is not None),
            (None if self.label is None else True, has_label(table.labels, self.label)),
        )
        matches = self.pattern is None or fnmatchcase(table.id, self.pattern)
        return matches and all(wanted is None or wanted == actual for wanted, actual in pairs)


_EVERY = TableFilter()


def has_label(labels: Mapping[str, str], query: str | None) -> bool:
    """Whether a table has a label that is asked for: `NAME`, or `NAME=VALUE`."""
    name, equal, value = (query or "").partition("=")
    return name in labels and (not equal or labels[name] == value)


def _filter_of(
    *,
    id: Name = None,  # noqa: A002 - the name of the parameter
    format: Name = None,  # noqa: A002
    mode: Mode | None = None,
    blocked: bool | None = None,
    failing: bool | None = None,
    paused: bool | None = None,
    label: Name = None,
) -> TableFilter:
    return TableFilter(
        pattern=id, format=format, mode=mode, blocked=blocked, failing=failing, paused=paused, label=label
    )


def runs_of(
    plane: ControlPlane,
    caller: Caller,
    *,
    table: str | None,
    service: Service | None = None,
    states: Collection[RunState] = (),
    after: str | None,
    limit: int,
) -> tuple[Sequence[Run], RunId | None]:
    """Return a page of the runs that a caller may see, the newest first, and the cursor of the next page.

    Raises ApiError (404) if there is no run `after`.
    """
    if after is not None and plane.run(RunId(after)) is None:
        raise ApiError(404, "not_found", f"query.after: there is no run {after}", "begin with the first page again")
    whole = caller.reaches_everything or table is not None
    considered = limit if whole else _LOOKED_AT
    runs = plane.runs(
        table=None if table is None else TableId(table),
        service=service,
        states=states,
        before=None if after is None else RunId(after),
        limit=considered + 1,
    )
    more, runs = len(runs) > considered, runs[:considered]
    reached = [run for run in runs if caller.reaches(run.table)]
    seen = reached[:limit]
    last = (seen[-1] if len(reached) > limit else runs[-1]) if more or len(reached) > limit else None
    return seen, None if last is None else last.id


def add_lists(app: FastAPI, plane: ControlPlane, clock: Clock) -> None:
    """Add the lists of tables and of runs."""

    @app.get("/v1/tables", response_model=TablePage, responses={**PAGED, **errors(422, 503)}, openapi_extra=_VIEWER)
    def tables(
        *,
        request: Request,
        wanted: Annotated[TableFilter, Depends(_filter_of)],
        after: Name = None,
        limit: Limit = 100,
    ) -> Answer:
        """Return the registered tables for which the caller is a viewer, by their ids.

        `id` is a pattern with `*` and `?`. `blocked`: a service of the table is blocked. `failing`: the table cannot be
        observed. `label` is a name, or `NAME=VALUE`. `after` is the id after which the page begins.
        """
        statuses = wanted.among(tables_for(plane, caller_of(request)))
        rows, cursor = cut(statuses, by=lambda status: status.table.id, after=after, limit=limit)
        page = TablePage(
            items=[table_body(status, polled_ago=plane.polled_ago(status.table.id)) for status in rows], next=cursor
        )
        answer = Answer(page.model_dump(mode="json"))  # made here: in the loop of the server it would delay hooks
        link_to_next(request, answer, cursor)
        return answer

    @app.get("/v1/runs", responses={**PAGED, **errors(404, 422, 503)}, openapi_extra=_VIEWER)
    def runs(
        *,
        request: Request,
        response: Response,
        table: Name = None,
        service: Service | None = None,
        state: Annotated[list[RunState] | None, Query()] = None,
        after: Name = None,
        limit: Limit = 100,
    ) -> RunPage:
        """Return runs, the newest first.

        `after` is the id of the run after which the page begins. If the key of the caller is for some tables only, a
        page has their runs among the next 1000 runs.
        """
        seen, cursor = runs_of(
            plane, caller_of(request), table=table, service=service, states=state or (), after=after, limit=limit
        )
        link_to_next(request, response, cursor)
        return RunPage(items=run_bodies(plane, seen, now=clock.now()), next=cursor)
