"""Quarantine of one service of a table, and its release."""

from __future__ import annotations

from fastapi import FastAPI, Request
from pydantic import BaseModel, ConfigDict, Field

from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.http.access.roles import caller_of, needs
from lakewarden.service.http.errors import ApiError, errors
from lakewarden.service.http.registered import answered, policy_of, registered
from lakewarden.service.model.access import Role

_PATH = "/v1/tables/{table}/services/{service}/quarantine"


class QuarantineRequest(BaseModel):
    """Why a service is put in quarantine. Operators read it."""

    model_config = ConfigDict(extra="forbid")

    reason: str = Field(default="put in quarantine through the API", min_length=1, max_length=500)


def add_quarantine(app: FastAPI, plane: ControlPlane) -> None:
    """Add the routes."""

    @app.post(_PATH, status_code=204, responses=errors(404, 422, 503), openapi_extra=needs(Role.OPERATOR))
    async def quarantine(table: str, service: str, request: Request, said: QuarantineRequest | None = None) -> None:
        """Start no more runs of a service of the table until it is released. An active run may finish."""
        status, reason = registered(plane, table), (said or QuarantineRequest()).reason
        known = policy_of(status, service)
        await answered(plane.commands.quarantine(status.table.id, known, reason=reason, caller=caller_of(request)))

    @app.delete(_PATH, status_code=204, responses=errors(404, 503), openapi_extra=needs(Role.OPERATOR))
    async def release(table: str, service: str, request: Request) -> None:
        """End the quarantine and the backoff of a service of the table. 404 if there is neither."""
        status = registered(plane, table)
        known = policy_of(status, service)
        if not await answered(
            plane.commands.quarantine(status.table.id, known, reason=None, caller=caller_of(request))
        ):
            raise ApiError(404, "not_found", f"{known} of table {table} is in no quarantine and no backoff")
