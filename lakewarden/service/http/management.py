"""The management port: probes and metrics, on a loop of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from fastapi import FastAPI, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel

from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.http.access.browsers import CrossOriginGuard, Hosts
from lakewarden.service.http.access.callers import Callers, Identify, uncounted
from lakewarden.service.http.access.roles import OPEN, guarding, needs
from lakewarden.service.http.errors import DEFAULT, Answer, add_error_handlers
from lakewarden.service.http.openapi import describe, operation_id
from lakewarden.service.http.query.steps import stepped
from lakewarden.service.http.request_limits import PlainRequests
from lakewarden.service.http.schemas import LiveBody, ReadyBody
from lakewarden.service.model.access import Role
from lakewarden.service.model.problems import OnRefusal

ALIVE_WITHIN = timedelta(seconds=60)
"""After so long without a turn the control thread is stuck, and the process should be restarted."""

PROBES = ("/livez", "/readyz")
"""These paths have no limit of requests, and need no thread."""


class _Scrapes:
    """One scrape at a time. Scrapes meanwhile get the same answer, so scrapers cannot occupy every thread."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._under_way: asyncio.Task[bytes] | None = None

    async def text(self) -> bytes:
        """Return the metrics in the text format of Prometheus."""
        if self._under_way is None or self._under_way.done():
            self._under_way = asyncio.create_task(asyncio.to_thread(generate_latest, self._registry))
        return await asyncio.shield(self._under_way)


def build_management(
    plane: ControlPlane,
    registry: CollectorRegistry,
    *,
    identify: Identify | None = None,
    hosts: Hosts | None = None,
    on_refusal: OnRefusal = uncounted,
    notes: Callable[[], Sequence[str]] = tuple,
) -> FastAPI:
    """Return the management application. `identify` knows the callers of the metrics. None: they need no key.

    Probes may use any name of the daemon. The metrics name every table, so a page of another site gets none.
    """
    app = FastAPI(
        title="Lakewarden management",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        generate_unique_id_function=operation_id,
        responses=dict(DEFAULT),
    )
    app.add_middleware(Callers, identify=identify, on_refusal=on_refusal, hooks={}, open_paths=PROBES)
    app.add_middleware(CrossOriginGuard, hosts=hosts or Hosts(), hints=PROBES, on_refusal=on_refusal)
    app.add_middleware(PlainRequests, on_refusal=on_refusal)
    app.router.route_class = stepped(guarding(on_refusal))
    add_error_handlers(app)
    describe(app)
    scrapes = _Scrapes(registry)

    @app.get("/livez", responses=_both(LiveBody, "The control thread is stuck."), openapi_extra=OPEN)
    async def livez() -> Answer:
        """Return whether the control thread turns."""
        turned_ago = plane.health().turned_ago
        alive = turned_ago < ALIVE_WITHIN
        return Answer(
            LiveBody(alive=alive, turned_seconds_ago=turned_ago.total_seconds()).model_dump(), 200 if alive else 503
        )

    @app.get(
        "/readyz",
        responses=_both(ReadyBody, "Something is missing; `missing` has a sentence for each."),
        openapi_extra=OPEN,
    )
    async def readyz() -> Answer:
        """Return whether the daemon may act, and what is missing. Without workers it is ready: it takes hooks."""
        health = plane.health()
        missing = list(health.unready)
        body = ReadyBody(ready=not missing, missing=missing, notes=[*health.notes, *notes()])
        return Answer(body.model_dump(), 503 if missing else 200)

    @app.get("/metrics", response_class=PlainTextResponse, openapi_extra=needs(Role.VIEWER, whole=True))
    async def metrics() -> Response:
        """Return the metrics in the text format of Prometheus."""
        return Response(await scrapes.text(), media_type=CONTENT_TYPE_LATEST)

    return app


def _both(body: type[BaseModel], otherwise: str) -> dict[int | str, dict[str, Any]]:
    """Return the answers of a probe: the same body for 200 and for 503. `otherwise` is the meaning of 503."""
    return {200: {"model": body}, 503: {"model": body, "description": otherwise}}
