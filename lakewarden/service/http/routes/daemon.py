"""The daemon itself: its configuration, and its end."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from pydantic import BaseModel

from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.http.access.roles import caller_of, needs
from lakewarden.service.http.errors import ApiError, errors
from lakewarden.service.http.redacted import ConfigurationPart
from lakewarden.service.model.access import ActKind, Role


class ConfigBody(BaseModel):
    """The configuration of the daemon that answers, with its defaults.

    A secret stands there as its place (`env` or `file`). A value of Spark or of a catalog is `REDACTED` if its
    key has the name of a secret. It is empty if the daemon was started without a configuration.
    """

    configuration: dict[str, Any]
    refused: list[str] = []
    """Why the file as it is now is not in force. Empty if it was not read again, or is in force."""


class ReloadBody(BaseModel):
    """The result of reading the configuration again.

    If there are `problems`, the last good configuration stays in force. The keys of `needs_restart` have other values
    than at the start of the daemon, which reads them at its start only. `gone` are the ids and patterns of entries that
    the file no longer has: their tables are let go, if no other entry means them.
    """

    accepted: bool
    tables: int
    problems: list[str]
    needs_restart: list[str]
    gone: list[str]


class DrainBody(BaseModel):
    """Whether the daemon began to stop because of this request. False if it was stopping already."""

    stopping: bool


def add_daemon(app: FastAPI, plane: ControlPlane, configuration: ConfigurationPart) -> None:
    """Add the routes."""
    shown, reloading = configuration.shown, configuration.reloading

    @app.get("/v1/config", openapi_extra=needs(Role.ADMIN, whole=True))
    def config() -> ConfigBody:
        """Return the configuration of the daemon that answers, without secrets."""
        refused = [] if reloading is None else list(reloading.refusal())
        return ConfigBody(configuration={} if shown is None else shown.values(), refused=refused)

    @app.post("/v1/reload", responses=errors(409, 503), openapi_extra=needs(Role.ADMIN, whole=True))
    def reload(request: Request) -> ReloadBody:
        """Read the configuration of the daemon that answers again, as SIGHUP does. Runs go on.

        Only `defaults`, `policies` and `tables` are read again. A file with an error changes nothing.
        """
        if reloading is None:
            raise ApiError(409, "not_supported", "the daemon was started without a configuration file")
        plane.note(ActKind.RELOADED, caller=caller_of(request))
        outcome = reloading.reload()
        return ReloadBody.model_validate(outcome, from_attributes=True)

    @app.post("/v1/drain", status_code=202, responses=errors(503), openapi_extra=needs(Role.ADMIN, whole=True))
    def drain(request: Request) -> DrainBody:
        """End the daemon that answers, as SIGTERM does. It starts no more runs, and waits for active runs.

        With replicas, the others take its tables over. A supervisor, such as Kubernetes, may start it again.
        """
        return DrainBody(stopping=plane.drain(caller=caller_of(request)))
