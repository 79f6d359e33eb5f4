"""The management port: probes and metrics, on a loop of their own."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from fastapi import FastAPI, Response
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.http.answers import Answer
from lakewarden.service.http.errors import add_error_handlers

ALIVE_WITHIN = timedelta(seconds=60)
"""A control thread that has not turned for this long is stuck: the process should be started again."""

PROBES = ("/livez", "/readyz")
"""What is answered however often it is asked for, and never waits for a thread."""


class _Scrapes:
    """One scrape at a time: who comes meanwhile is given the same, so that scrapers cannot occupy every thread."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._under_way: asyncio.Task[bytes] | None = None

    async def text(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        if self._under_way is None or self._under_way.done():
            self._under_way = asyncio.create_task(asyncio.to_thread(generate_latest, self._registry))
        return await asyncio.shield(self._under_way)


def build_management(plane: ControlPlane, registry: CollectorRegistry) -> FastAPI:
    """Return the management application."""
    app = FastAPI(
        title="Lakewarden management", docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False
    )
    add_error_handlers(app)
    scrapes = _Scrapes(registry)

    @app.get("/livez")
    async def livez() -> Answer:
        """Say whether the control thread turns."""
        turned_ago = plane.health().turned_ago
        alive = turned_ago < ALIVE_WITHIN
        return Answer({"alive": alive, "turned_seconds_ago": turned_ago.total_seconds()}, 200 if alive else 503)

    @app.get("/readyz")
    async def readyz() -> Answer:
        """Say whether work can be done, and what is missing."""
        unready = list(plane.health().unready)
        return Answer({"ready": not unready, "missing": unready}, 503 if unready else 200)

    @app.get("/metrics")
    async def metrics() -> Response:
        """Return the metrics in Prometheus' text format."""
        return Response(await scrapes.text(), media_type=CONTENT_TYPE_LATEST)

    return app
