"""`GET /v1/tables/{table}/proof`: what is proved of a table, and what keeps Lakewarden from acting on it."""

from __future__ import annotations

from fastapi import FastAPI
from pydantic import BaseModel

from lakewarden.planners.model.proof import Check, ProofResult
from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.http.access.roles import needs
from lakewarden.service.http.errors import errors
from lakewarden.service.http.registered import registered
from lakewarden.service.model.access import Role


class CheckBody(BaseModel):
    """One check of a table: what was found, and what to do about it. `needed`: the proof does not do without it."""

    check: Check
    result: ProofResult
    needed: bool
    found: str
    cure: str | None


class ProofBody(BaseModel):
    """The proof of a table. `proved`: each check that is needed is ok. `act_when` says whether the policy asks for
    it.
    """

    table: str
    mode: str
    act_when: str
    proved: bool
    checks: list[CheckBody]


def add_proof(app: FastAPI, plane: ControlPlane) -> None:
    """Add the route."""

    @app.get("/v1/tables/{table}/proof", responses=errors(404), openapi_extra=needs(Role.VIEWER))
    def table_proof(table: str) -> ProofBody:
        """Return what is proved of a table by its last observation. Nothing is read for it."""
        status = registered(plane, table)
        without = status.table.proof_without
        checks = [
            CheckBody(
                check=one.check, result=one.result, needed=one.check not in without, found=one.found, cure=one.cure
            )
            for one in plane.proof(status)
        ]
        return ProofBody(
            table=status.table.id,
            mode=status.table.mode.value,
            act_when=status.table.act_when.value,
            proved=all(one.result is ProofResult.OK for one in checks if one.needed),
            checks=checks,
        )
