"""The REST API and the commit hooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from fastapi import FastAPI

import lakewarden
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.ports import TableFormat
from lakewarden.planners.registry import FORMATS
from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.http.access.browsers import CrossOriginGuard, Hosts
from lakewarden.service.http.access.callers import Callers, Identify, uncounted
from lakewarden.service.http.access.roles import guarding
from lakewarden.service.http.errors import DEFAULT, Answer, add_error_handlers, errors
from lakewarden.service.http.forwarding import forwarding
from lakewarden.service.http.history import add_history
from lakewarden.service.http.hooks import HOOK_KEYS, HOOKS, add_hooks
from lakewarden.service.http.openapi import describe, operation_id
from lakewarden.service.http.pages.answer import ProblemPages, Rendering
from lakewarden.service.http.pages.fleet import add_fleet
from lakewarden.service.http.pages.runs import add_run_pages
from lakewarden.service.http.pages.sign_in import RETURN_PATH, SIGN_IN, STATIC, WITH_ISSUER, add_sign_in
from lakewarden.service.http.pages.table import add_table
from lakewarden.service.http.query.lists import add_lists
from lakewarden.service.http.query.steps import in_turns, stepped, strict
from lakewarden.service.http.redacted import ConfigurationPart
from lakewarden.service.http.registry import add_registry
from lakewarden.service.http.request_limits import BodyLimit, PlainPaths, PlainRequests
from lakewarden.service.http.routes.barriers import add_barriers
from lakewarden.service.http.routes.daemon import add_daemon
from lakewarden.service.http.routes.deletions import add_deletions
from lakewarden.service.http.routes.explain import WriterPart, add_explain
from lakewarden.service.http.routes.pauses import add_pauses
from lakewarden.service.http.routes.policies import add_policies
from lakewarden.service.http.routes.runs import add_runs
from lakewarden.service.http.routes.status import add_status
from lakewarden.service.http.routes.timeline import add_timeline
from lakewarden.service.model.problems import OnRefusal
from lakewarden.service.model.received_hook import OnHook

if TYPE_CHECKING:
    from lakewarden.service.state.sign_in import SignIns


def build_api(
    plane: ControlPlane,
    *,
    clock: Clock,
    hook_heard: OnHook,
    url: str = "http://127.0.0.1:8080",
    hosts: Hosts | None = None,
    on_refusal: OnRefusal = uncounted,
    identify: Identify | None = None,
    sign_ins: SignIns | None = None,
    formats: Mapping[str, TableFormat] = FORMATS,
    configuration: ConfigurationPart | None = None,
) -> FastAPI:
    """Return the API application over a control plane.

    `url` is where writers send their hooks, and `hook_heard` gets each hook. `on_refusal` gets each request that
    `hosts` refuses because it comes from a page of another site, or that its caller may not send. `identify` knows the
    callers. Without it every client may do everything. People may sign in with the issuers of `sign_ins`.
    `configuration` is shown.
    """
    app = _application(hosts, on_refusal, identify)
    steps = (guarding(on_refusal), strict(HOOKS, RETURN_PATH), in_turns(), forwarding(plane))
    app.router.route_class = stepped(*steps)
    writers = WriterPart(url=url, formats=formats, with_keys=identify is not None)
    add_hooks(app, plane, hook_heard)
    add_lists(app, plane, clock)
    add_timeline(app, plane)
    add_policies(app, plane)
    add_explain(app, plane, clock, writers)
    add_runs(app, plane, clock)
    add_pauses(app, plane, clock)
    add_deletions(app, plane)
    add_barriers(app, plane)
    add_status(app, plane, clock)
    add_history(app, plane)
    part = configuration or ConfigurationPart()
    add_daemon(app, plane, part)
    add_registry(app, plane, part.registering)
    rendering = Rendering(clock)
    add_fleet(app, plane, clock, rendering)
    add_table(app, plane, clock, rendering, writers)
    add_run_pages(app, plane, clock, rendering)
    add_sign_in(app, identify, sign_ins, rendering)
    return app


def _application(hosts: Hosts | None, on_refusal: OnRefusal, identify: Identify | None) -> FastAPI:
    # Documentation pages run scripts of other hosts. These could send anything from our origin. A redirect would go to
    # any host that the sender writes into `Host`.
    app = FastAPI(
        title="Lakewarden",
        version=lakewarden.__version__,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=operation_id,
        default_response_class=Answer,
        responses={**DEFAULT, **errors(422)},
    )
    show = ProblemPages("/v1", STATIC, "/openapi.json")
    app.add_middleware(BodyLimit, hooks=HOOKS)
    app.add_middleware(PlainPaths, hooks=HOOKS, show=show)
    app.add_middleware(
        Callers,
        identify=identify,
        on_refusal=on_refusal,
        hooks=HOOK_KEYS,
        open_paths=(SIGN_IN, WITH_ISSUER, RETURN_PATH, "/sign-out"),
        open_below=STATIC,
        sign_in=SIGN_IN,
    )
    app.add_middleware(CrossOriginGuard, hosts=hosts or Hosts(), hints=[HOOKS], on_refusal=on_refusal)
    app.add_middleware(PlainRequests, on_refusal=on_refusal)
    add_error_handlers(app, show)
    describe(app)
    return app
