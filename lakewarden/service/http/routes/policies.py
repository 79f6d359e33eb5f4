"""The settings of a table that are in force, with their sources, and what is proved of the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel

from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.proof import Check, ProofResult
from lakewarden.planners.model.table import DeletionBudget, Policy, Table
from lakewarden.planners.settings import format_duration
from lakewarden.service.config.daemon import Asking
from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.http.access.roles import needs
from lakewarden.service.http.errors import errors
from lakewarden.service.http.reach import registered
from lakewarden.service.model.access import Role


class SettingBody(BaseModel):
    """One value that is in force.

    `source` is where it comes from: `table` (the entry of the table), `pattern ADDRESS`, `policy NAME`, `defaults`,
    `profile` or `built-in`. `place` is the file and the line, if it is written in the configuration.
    """

    value: Any
    source: str
    place: str | None = None


class PoliciesBody(BaseModel):
    """The settings of a table that are in force, by their keys. `services` has those of each policy.

    Values are written as in the configuration. Options are in the terms of the format.
    """

    table: str
    settings: dict[str, SettingBody]
    services: dict[str, dict[str, SettingBody]]
    not_applicable: dict[str, str]
    """The services of the table's policy that its format does not have, with the reason."""


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


def add_policies(app: FastAPI, plane: ControlPlane) -> None:
    """Add the routes."""

    @app.get("/v1/tables/{table}/policies", responses=errors(404, 503), openapi_extra=needs(Role.VIEWER))
    def policies(table: str) -> PoliciesBody:
        """Return the settings of a table that are in force, and where each of them comes from."""
        return policies_of(registered(plane, table).table)

    @app.get("/v1/tables/{table}/proof", responses=errors(404), openapi_extra=needs(Role.VIEWER))
    def table_proof(table: str) -> ProofBody:
        """Return what is proved of a table by its last observation. Nothing is read for it."""
        status = registered(plane, table)
        without = status.table.proof_without
        checks = [CheckBody(**asdict(proof), needed=proof.check not in without) for proof in plane.proof(status)]
        return ProofBody(
            table=status.table.id,
            mode=status.table.mode.value,
            act_when=status.table.act_when.value,
            proved=all(proof.result is ProofResult.OK for proof in checks if proof.needed),
            checks=checks,
        )


def policies_of(table: Table) -> PoliciesBody:
    """Return the settings of a table as JSON."""
    return PoliciesBody(
        table=table.id,
        settings=dict(_settings(table)),
        services={service.value: _policy(table, service, policy) for service, policy in table.policies.items()},
        not_applicable={service.value: why for service, why in table.unfit.items()},
    )


def _settings(table: Table) -> Mapping[str, SettingBody]:
    values = {
        "mode": table.mode.value,
        "act_when": table.act_when.value,
        "proof_without": sorted(table.proof_without),
        "poll": format_duration(table.poll),
        "poll_with_hooks": format_duration(table.poll_with_hooks),
        "spark": table.spark,
        "zone": str(table.zone),
        "contact": table.contact,
        **_leaves("labels", dict(table.labels)),
        **_leaves("budget", _budget(table.budget)),
        **_leaves("options", _options(table.options)),
    }
    return {key: _setting(table, key, value) for key, value in values.items()}


def _policy(table: Table, service: Service, policy: Policy) -> dict[str, SettingBody]:
    window = policy.window
    window_text = None if window is None else f"{window.start:%H:%M}-{window.end:%H:%M} {window.zone}"
    values = {
        "trigger": policy.trigger.describe(),
        "schedule": policy.schedule.value,
        "grace": format_duration(policy.grace),
        "window": window_text,
        "async": policy.beside,
        "priority": policy.priority,
        "spark": ", ".join(table.profiles_of(service)),
        **_leaves("session", dict(policy.session)),
        **_leaves("options", _options(policy.options)),
    }
    return {key: _setting(table, key, value, of=f"services.{service}.") for key, value in values.items()}


def _budget(budget: DeletionBudget) -> Mapping[str, Any]:
    asking = {True: Asking.ASK, False: Asking.ALLOW}
    return {
        "files": budget.files,
        "percent": budget.percent,
        "partitions": budget.partitions,
        "first_clean": asking[budget.asks_first].value,
        "shorter_retention": asking[budget.asks_shorter].value,
    }


def _options(options: Any) -> Mapping[str, Any]:
    return options.model_dump(mode="json", by_alias=True) if isinstance(options, BaseModel) else {}


def _leaves(key: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values below a key, each with its own key: `options.lock.url`. Levels are merged value by value."""
    leaves: dict[str, Any] = {}
    for name, value in values.items():
        below = isinstance(value, Mapping) and value
        leaves |= _leaves(f"{key}.{name}", value) if below else {f"{key}.{name}": value}
    return leaves


def _setting(table: Table, key: str, value: Any, *, of: str = "") -> SettingBody:
    origin = table.origin(f"{of}{key}")
    if origin is None:
        return SettingBody(value=value, source="built-in")
    return SettingBody(value=value, source=origin.level, place=table.place(origin))
