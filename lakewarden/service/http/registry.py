"""`/v1/registrations`: tables are registered, changed and removed while the daemon runs. `/v1/discovery`: what was
found by patterns of paths and in catalogs, and what was refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Any, TypeVar

from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from lakewarden.planners.model.table import Mode, Scheduling, TableId
from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.http.access.roles import caller_of, needs
from lakewarden.service.http.errors import ApiError, errors
from lakewarden.service.http.query.pages import PAGED, Limit, Name, Page, cut, link_to_next
from lakewarden.service.http.request_limits import names_tag
from lakewarden.service.model.access import Role
from lakewarden.service.model.registrations import (
    Expected,
    NotRegisteredError,
    OtherRegistrationError,
    Registering,
    Registration,
    RegistrationRefusedError,
)
from lakewarden.service.model.table_sources import SourceStatus

_Answer = TypeVar("_Answer")
_MOST = 1000
"""So many refusals of one source are shown."""

_ADMIN = needs(Role.ADMIN, whole=True)
_IF_MATCH = {
    "name": "If-Match",
    "in": "header",
    "required": False,
    "description": "The `ETag` of the registration as it was read. If it has another one now, the answer is 412, and "
    "nothing is changed.",
    "schema": {"type": "string"},
}
_IF_SEEN = {**_ADMIN, "parameters": [_IF_MATCH]}

Text = Annotated[str, StringConstraints(min_length=1, max_length=1000)]


class RegisteredServiceRequest(BaseModel):
    """The policy of one service, as in the configuration. Its options come from a policy of the configuration."""

    model_config = ConfigDict(extra="forbid")

    trigger: dict[str, Any] | None = None
    schedule: Scheduling | None = None
    grace: Text | None = None
    window: dict[str, Any] | None = None
    priority: int | None = None


class RegisteredBudgetRequest(BaseModel):
    """The most that one run may delete without an approval."""

    model_config = ConfigDict(extra="forbid")

    files: int | None = None
    percent: float | None = None
    partitions: int | None = None


class ChangedTableRequest(BaseModel):
    """The entry of a table, in the words of the configuration. It replaces the former entry as a whole.

    What is left out comes from the policy, from the first pattern that means the table, and from the defaults. A
    service that is `false` is switched off. `options`, `session` and `spark.conf` are for the configuration alone.
    """

    model_config = ConfigDict(extra="forbid")

    path: Text
    format: Text | None = None
    policy: Text | None = None
    mode: Mode | None = None
    poll: Text | None = None
    spark: Text | None = None
    priority: int | None = None
    budget: RegisteredBudgetRequest | None = None
    contact: Text | None = None
    labels: dict[str, str] | None = None
    services: dict[str, RegisteredServiceRequest | bool] | None = None


class RegisteredTableRequest(ChangedTableRequest):
    """The entry of a new table. Without an `id` it is the path with dots."""

    id: Text | None = None


class RegistrationBody(BaseModel):
    """A table that is registered over the API. `problem` is why it is not served. It is null if it is served.

    `entry` is what was said of the table.
    """

    id: str
    entry: dict[str, Any]
    registered_by: str
    registered_at: datetime
    problem: str | None = Field(
        default=None, description="Why the table is not served, such as a policy that is not in the configuration."
    )


class RegistrationPage(Page[RegistrationBody]):
    """One page of registered tables."""


class RefusedTableBody(BaseModel):
    """A table, or a namespace, and why it is not served."""

    name: str
    reason: str


class SourceBody(BaseModel):
    """A catalog, or a pattern of paths, as the daemon that answers has last listed it.

    `tables` is how many tables it found, and `ids` the first 1000 of them. `refused` are the tables that are not
    served, and `unlisted` the namespaces that could not be listed: at most 1000 of each. `failure` is why the last
    listing failed. What was found before it stays in force.
    """

    name: str
    every_seconds: float
    listing: bool
    asked_at: datetime | None
    answered_at: datetime | None
    failure: str | None
    tables: int
    ids: list[str]
    refused_tables: int
    refused: list[RefusedTableBody]
    unlisted: list[RefusedTableBody]


class SourcePage(Page[SourceBody]):
    """One page of sources."""


class ListingBody(BaseModel):
    """How many sources are listed now."""

    sources: int


def add_registry(app: FastAPI, plane: ControlPlane, registering: Registering | None) -> None:
    """Add the routes. `registering` is None if the daemon has no configuration."""

    @app.get("/v1/registrations", responses={**PAGED, **errors(422, 503)}, openapi_extra=needs(Role.VIEWER))
    def registrations(
        *, request: Request, response: Response, after: Name = None, limit: Limit = 100
    ) -> RegistrationPage:
        """Return the tables that are registered over the API, also those that cannot be served, by their ids."""
        caller = caller_of(request)
        rows = [row for row in _registrations(registering) if caller.reaches(row.table)]
        page, cursor = cut(rows, by=lambda row: row.table, after=after, limit=limit)
        link_to_next(request, response, cursor)
        return RegistrationPage(items=[_body(row) for row in page], next=cursor)

    @app.get("/v1/registrations/{id}", responses=errors(404, 503), openapi_extra=needs(Role.VIEWER))
    def registration(id: str, request: Request, response: Response) -> RegistrationBody:  # noqa: A002 - as in the path
        """Return one table that is registered over the API."""
        row = next((row for row in _registrations(registering) if row.table == id), None)
        if row is None or not caller_of(request).reaches(id):
            raise ApiError(404, "not_found", f"no table {id!r} is registered over the API")
        return _tagged(_body(row), response)

    @app.post("/v1/registrations", status_code=201, responses=errors(409, 422, 503), openapi_extra=_ADMIN)
    def register_table(request: Request, response: Response, body: RegisteredTableRequest) -> RegistrationBody:
        """Register a table. The store keeps it, and every replica on the store serves it within seconds.

        Its place must lie below a root of the configuration. No other table may be there, inside of it or around it.
        """
        caller, entry = caller_of(request), _entry(body)
        return _tagged(_body(_answer_of(lambda: _there(registering).register(entry, caller=caller))), response)

    @app.put("/v1/registrations/{id}", responses=errors(404, 409, 412, 422, 503), openapi_extra=_IF_SEEN)
    def change_table(
        id: str,  # noqa: A002
        request: Request,
        response: Response,
        body: ChangedTableRequest | None = None,
    ) -> RegistrationBody:
        """Replace the entry of a registered table. If it has a run, the new settings wait for the end of that run.

        Its place and its format stay. A table of the configuration file is changed there.
        """
        there = _there(registering, id)
        caller, entry, seen = caller_of(request), _entry(body), _seen_by(request)
        changed = _answer_of(lambda: there.change(TableId(id), entry, caller=caller, expected=seen))
        return _tagged(_body(changed), response)

    @app.delete("/v1/registrations/{id}", status_code=204, responses=errors(404, 409, 412, 503), openapi_extra=_IF_SEEN)
    def remove_table(id: str, request: Request) -> None:  # noqa: A002
        """Serve a registered table no longer. Its runs end as they would, and no other one begins.

        Nothing of the table is touched.
        """
        caller, seen = caller_of(request), _seen_by(request)
        _answer_of(lambda: _there(registering, id).remove(TableId(id), caller=caller, expected=seen))

    @app.get("/v1/discovery", responses={**PAGED, **errors(422)}, openapi_extra=needs(Role.VIEWER, whole=True))
    def discovery(*, request: Request, response: Response, after: Name = None, limit: Limit = 100) -> SourcePage:
        """Return the catalogs and the patterns of paths that tables are found by, by their names.

        Each replica lists them for itself.
        """
        page, cursor = cut(plane.discovery.sources(), by=lambda source: source.name, after=after, limit=limit)
        link_to_next(request, response, cursor)
        return SourcePage(items=[_discovery_body(source) for source in page], next=cursor)

    @app.post("/v1/discovery/list", status_code=202, openapi_extra=needs(Role.OPERATOR, whole=True))
    def discover_now() -> ListingBody:
        """List every catalog and every pattern of paths now. `GET /v1/discovery` shows the answers."""
        plane.discovery.list_again()
        return ListingBody(sources=len(plane.discovery.sources()))


def _seen_by(request: Request) -> Expected:
    """Return what tells whether a registration is the one that the request wants to change. Without `If-Match` it is
    whatever is there.
    """
    sent = request.headers.getlist("if-match")
    return lambda there: not sent or names_tag(sent, _tag(_body(there)))


def _tag(body: RegistrationBody) -> str:
    return f'"{hashlib.blake2b(body.model_dump_json().encode(), digest_size=12).hexdigest()}"'


def _tagged(body: RegistrationBody, response: Response) -> RegistrationBody:
    response.headers["ETag"] = _tag(body)
    return body


def _there(registering: Registering | None, table: str | None = None) -> Registering:
    """Return what registers tables. Raises ApiError if there is none: it knows no `table`, and registers none."""
    if registering is None and table is not None:
        raise ApiError(404, "not_found", f"no table {table!r} is registered over the API")
    if registering is None:
        raise ApiError(409, "not_supported", "the daemon was started without a configuration file")
    return registering


def _registrations(registering: Registering | None) -> Sequence[Registration]:
    return () if registering is None else registering.registrations()


def _answer_of(ask: Callable[[], _Answer]) -> _Answer:
    try:
        return ask()
    except NotRegisteredError as unknown:
        raise ApiError(404, "not_found", str(unknown)) from unknown
    except OtherRegistrationError as other:
        raise ApiError(412, "changed", str(other), other.remedy) from other
    except RegistrationRefusedError as refused:
        raise ApiError(409, "refused", str(refused), refused.remedy) from refused


def _entry(body: ChangedTableRequest | None) -> dict[str, Any]:
    """Return an entry. Raises ApiError (422) if there is none."""
    if body is None:
        raise ApiError(422, "invalid", "body: is missing", "send the entry of the table")
    return body.model_dump(mode="json", exclude_unset=True, exclude_none=True)


def _body(row: Registration) -> RegistrationBody:
    return RegistrationBody(
        id=row.table, entry=dict(row.entry), registered_by=row.by, registered_at=row.at, problem=row.problem
    )


def _discovery_body(source: SourceStatus) -> SourceBody:
    return SourceBody(
        name=source.name,
        every_seconds=source.every.total_seconds(),
        listing=source.listing,
        asked_at=source.asked_at,
        answered_at=source.answered_at,
        failure=source.failure,
        tables=len(source.tables),
        ids=list(source.tables[:_MOST]),
        refused_tables=len(source.refused),
        refused=[RefusedTableBody(name=name, reason=why) for name, why in [*source.refused.items()][:_MOST]],
        unlisted=[RefusedTableBody(name=name, reason=why) for name, why in [*source.unlisted.items()][:_MOST]],
    )
