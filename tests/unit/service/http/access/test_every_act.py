"""Every route that changes something: each is called so that it does, and the audit log must have it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute

from docs.nothing import empty_room
from lakewarden.planners.model.clock import SystemClock
from lakewarden.planners.model.table import DeletionBudget
from lakewarden.planners.storage import Storages
from lakewarden.service.config.daemon import at_start
from lakewarden.service.config.document import read_document
from lakewarden.service.config.loading import load
from lakewarden.service.config.registering import base_of
from lakewarden.service.http.api import build_api
from lakewarden.service.http.hooks import HOOKS
from lakewarden.service.http.redacted import ConfigurationPart
from lakewarden.service.model.access import ActKind
from lakewarden.service.model.run import RunState
from lakewarden.service.wiring.in_force import Tables, TablesInForce
from lakewarden.service.wiring.registering import Registrar, Reloader
from tests.support.daemon.daemon_harness import prepare
from tests.support.doubles.fake import FAKE
from tests.support.doubles.formats import TEST_FORMATS
from tests.unit.service.http.conftest import ServedDaemon, serving

CHANGES_NOTHING = {"discover_now": "it reads sources earlier than they are read anyway"}
"""The operations that need no row in the log, each with the reason."""

TRIPS = "/v1/tables/trips"
CLEAN = f"{TRIPS}/services/clean"


class Office:
    """A daemon with a configuration, and a table with work for its services."""

    def __init__(self, served: ServedDaemon, api: httpx.Client, lake: Path) -> None:
        self._served, self._api, self._lake = served, api, lake

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request that must succeed, and return its body."""
        answer = self._api.request(method, path, json=body)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def logged(self) -> list[str]:
        """Return the kinds of all acts, the newest first."""
        return [one["kind"] for one in self.ask("GET", "/v1/audit")["items"]]

    def entry(self, **said: Any) -> dict[str, Any]:
        """Return the entry of a table that is not registered yet."""
        return {"path": f"{self._lake}/new", "format": "fake", **said}

    def register(self) -> None:
        """Register a table."""
        self.ask("POST", "/v1/registrations", self.entry(id="new"))

    def run(self) -> str:
        """Request a run, and return its id."""
        return str(self.ask("POST", f"{CLEAN}/runs")["id"])

    def run_beyond_the_budget(self) -> None:
        """Have a clean stopped that waits for an approval."""
        self.run()
        assert self._served.moments.ending().state is RunState.YIELDED
        self._served.moments.decision()

    def cancelled(self) -> str:
        """Cancel a run, and return its id."""
        run = self.run()
        self.ask("POST", f"{TRIPS}/runs/{run}/cancel")
        return run

    def hold(self) -> str:
        """Hold the cleans, and return the id of the hold."""
        return str(self.ask("POST", f"{TRIPS}/barrier", {"hold": "1m"})["hold"])


def _approved(office: Office) -> None:
    office.run_beyond_the_budget()
    office.ask("POST", f"{CLEAN}/approval")


def _after(begin: Callable[[Office], Any], method: str, path: str, body: Any = None) -> Callable[[Office], None]:
    """Return what sends a request after something was done. `{it}` in the path is what that has returned."""

    def act(office: Office) -> None:
        office.ask(method, path.format(it=begin(office)), body)

    return act


def _nothing(_: Office) -> None:
    return


def _void(_: object) -> None:
    """Return nothing."""


ACTS: Mapping[str, tuple[ActKind, Callable[[Office], None]]] = {
    "drain": (ActKind.DRAINED, _after(_nothing, "POST", "/v1/drain")),
    "pause": (ActKind.PAUSED, _after(_nothing, "POST", "/v1/pause")),
    "resume": (ActKind.RESUMED, _after(_nothing, "POST", "/v1/resume")),
    "register_table": (ActKind.TABLE_REGISTERED, Office.register),
    "change_table": (
        ActKind.REGISTRATION_CHANGED,
        lambda office: _after(Office.register, "PUT", "/v1/registrations/new", office.entry(mode="plan"))(office),
    ),
    "remove_table": (ActKind.TABLE_REMOVED, _after(Office.register, "DELETE", "/v1/registrations/new")),
    "reload": (ActKind.RELOADED, _after(_nothing, "POST", "/v1/reload")),
    "hold_cleans": (ActKind.BARRIER_ASKED, lambda office: _void(office.hold())),
    "release_cleans": (ActKind.BARRIER_LIFTED, _after(Office.hold, "DELETE", f"{TRIPS}/barrier")),
    "release_hold": (ActKind.BARRIER_LIFTED, _after(Office.hold, "DELETE", f"{TRIPS}/barrier/{{it}}")),
    "pause_table": (ActKind.PAUSED, _after(_nothing, "POST", f"{TRIPS}/pause")),
    "resume_table": (ActKind.RESUMED, _after(_nothing, "POST", f"{TRIPS}/resume")),
    "request_run": (ActKind.RUN_REQUESTED, lambda office: _void(office.run())),
    "cancel_run": (ActKind.RUN_CANCELLED, lambda office: _void(office.cancelled())),
    "approve": (ActKind.DELETION_APPROVED, _approved),
    "release": (ActKind.RELEASED, _after(Office.cancelled, "DELETE", f"{CLEAN}/quarantine")),
    "end_rewrite": (
        ActKind.REWRITE_WITHDRAWN,
        _after(
            lambda office: office.ask("POST", f"{TRIPS}/services/compaction/runs", {"rewrite_all": True}),
            "DELETE",
            f"{TRIPS}/services/compaction/rewrite",
        ),
    ),
}
"""Each operation that acts, with the kind of its row, and what has it act."""


def _operations() -> dict[str, APIRoute]:
    app = build_api(empty_room().status, clock=SystemClock(), hook_heard=lambda *_: None)
    routes = [one for one in app.routes if isinstance(one, APIRoute)]
    return {
        one.name: one
        for one in routes
        if one.path.startswith("/v1/") and not one.path.startswith(HOOKS) and one.methods != {"GET"}
    }


def test_every_operation_that_acts_is_tried_below() -> None:
    """A new one cannot be forgotten. One that needs no row says why."""
    assert _operations().keys() == ACTS.keys() | CHANGES_NOTHING.keys()
    assert not ACTS.keys() & CHANGES_NOTHING.keys()
    assert len(ACTS) > 15


@pytest.fixture
def office(
    make_served: Callable[..., ServedDaemon], tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Office]:
    """Yield a daemon that registers, reloads, and has a table. A run waits for a slot, unless it has to be stopped."""
    served = make_served(
        budget=DeletionBudget(files=0),
        slots=2 if request.param == "approve" else 0,
    )
    prepare(served.lake)
    served.start()
    served.look()
    file, lake = tmp_path / "lakewarden.yaml", tmp_path / "lake"
    lake.mkdir()
    file.write_text(f"roots: [{lake}]\ntables: [{{id: listed, path: {lake}/listed, format: fake}}]")
    config = load(file, formats=TEST_FORMATS)
    base = base_of(config, read_document(file).values or {}, file)
    tables, clock = Tables(config=config, base=base), SystemClock()
    in_force = TablesInForce(
        tables, storages=Storages(), served={}, pools_of=lambda *_: {}, offer=lambda *_args, **_kwargs: None
    )
    registrar = Registrar(in_force, (), store=served.store, clock=clock, formats=TEST_FORMATS, registered={})
    reloader = Reloader(
        file,
        started_with=at_start(base.values),
        formats=TEST_FORMATS,
        clock=clock,
        in_force=in_force,
        rows=lambda: registrar.rows,
        tell=lambda *_: None,
    )
    app = build_api(
        served.composed.status,
        clock=clock,
        hook_heard=lambda *_: None,
        formats={FAKE.name: FAKE},
        configuration=ConfigurationPart(registering=registrar, reloading=reloader),
    )
    with serving(app) as client:
        yield Office(served, client, lake)


@pytest.mark.parametrize(("office", "operation"), [(name, name) for name in ACTS], indirect=["office"])
def test_every_operation_that_acts_is_in_the_audit_log(office: Office, operation: str) -> None:
    """The newest row is that of the act. What came before it may have rows of its own."""
    kind, act = ACTS[operation]
    act(office)
    assert office.logged()[0] == kind
