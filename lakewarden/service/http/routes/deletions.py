"""Deletions beyond the budget of a table: which wait, and who approves them."""

from __future__ import annotations

import asyncio
from datetime import datetime

from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import TableId
from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.http.access.roles import caller_of, needs
from lakewarden.service.http.errors import ApiError, errors
from lakewarden.service.http.query.pages import PAGED, Limit, Name, Page, cut, link_to_next
from lakewarden.service.http.reach import answered, policy_of, registered
from lakewarden.service.model.access import Caller, Role


class ApprovalRequest(BaseModel):
    """The person who approves. It counts only without authentication. With it the name of the API key counts."""

    model_config = ConfigDict(extra="forbid")

    by: str = Field(default="api", min_length=1, max_length=64)


class ApprovalBody(BaseModel):
    """A deletion that waits until a person approves it (`approved_by`).

    `files`, `bytes`, `partitions` and `versions` would be deleted for good; `deletes` says it in words. A figure is
    null if it was not counted. It waits because it is beyond the budget of its table, because it is the `first` clean
    of the table, or because the policy keeps less than was kept before: `shorter` says what. Everything from the commit
    `retained` on stays. It is null if the plan did not say it, or if the plan itself waits as `instant`.
    """

    table: str
    service: str
    instant: str | None
    files: int
    files_in_table: int | None
    partitions: int
    asked_at: datetime
    approved_by: str | None
    approved_at: datetime | None
    first: bool
    shorter: str | None
    retained: str | None
    bytes: int | None
    versions: int | None
    deletes: str


class ApprovalPage(Page[ApprovalBody]):
    """One page of deletions beyond a budget."""


async def _refuse_the_requester(plane: ControlPlane, table: TableId, service: Service, caller: Caller) -> None:
    """Raise ApiError (403) if the caller may not approve what the newest run of the service would delete."""
    for run in await asyncio.to_thread(plane.runs, table=table, service=service, limit=1):
        if not caller.may_approve(run.requested_by):
            refusal = f"{caller.name} requested run {run.id} with this deletion, and cannot approve it"
            raise ApiError(403, "forbidden", refusal, "another person with the role operator approves it")


def add_deletions(app: FastAPI, plane: ControlPlane) -> None:
    """Add the routes."""

    @app.post(
        "/v1/tables/{table}/services/{service}/approval",
        status_code=204,
        responses=errors(404, 409, 422, 503),
        openapi_extra=needs(Role.OPERATOR),
    )
    async def approve(table: str, service: str, request: Request, body: ApprovalRequest | None = None) -> None:
        """Approve the deletion that waits. Its service is due then. The approval counts once, for a day, and for no
        larger deletion. 409 if none waits.
        """
        status, caller = registered(plane, table), caller_of(request)
        service_of_path = policy_of(status, service)
        await _refuse_the_requester(plane, status.table.id, service_of_path, caller)
        by = (body or ApprovalRequest()).by if caller.key is None else caller.name
        given = plane.commands.approve(status.table.id, service_of_path, by=by, caller=caller)
        if not await answered(given, unknown="check whether the deletion still waits"):
            raise PermanentError(f"no deletion by {service_of_path} of table {table} waits for an approval")

    @app.get("/v1/approvals", responses={**PAGED, **errors(422, 503)}, openapi_extra=needs(Role.VIEWER))
    def approvals(
        *,
        request: Request,
        response: Response,
        waiting: bool | None = None,
        after: Name = None,
        limit: Limit = 100,
    ) -> ApprovalPage:
        """Return the deletions beyond a budget of the tables for which the caller is a viewer.

        `waiting`: the deletion is not approved. An approved one stays until it is carried out.
        """
        caller = caller_of(request)
        rows = [
            row for row in plane.approvals() if caller.reaches(row.table) and waiting in (None, row.approved_by is None)
        ]
        page, cursor = cut(rows, by=lambda row: f"{row.table}/{row.service}", after=after, limit=limit)
        link_to_next(request, response, cursor)
        return ApprovalPage(items=[ApprovalBody.model_validate(row, from_attributes=True) for row in page], next=cursor)
