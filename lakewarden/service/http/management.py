"""The management port: probes and metrics, on a loop of their own."""

from __future__ import annotations

from datetime import timedelta

from fastapi import FastAPI, Response
from fastapi.responses import JSONResponse
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from lakewarden.service.http.port import ControlPlane

ALIVE_WITHIN = timedelta(seconds=60)
"""A control thread that has not turned for this long is stuck: the process should be started again."""


def build_management(plane: ControlPlane, registry: CollectorRegistry) -> FastAPI:
    """Return the management application."""
    app = FastAPI(title="Lakewarden management", docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/livez")
    def livez() -> JSONResponse:
        """Say whether the control thread turns."""
        turned_ago = plane.health().turned_ago
        alive = turned_ago < ALIVE_WITHIN
        return JSONResponse({"alive": alive, "turned_seconds_ago": turned_ago.total_seconds()}, 200 if alive else 503)

    @app.get("/readyz")
    def readyz() -> JSONResponse:
        """Say whether work can be done, and what is missing."""
        unready = list(plane.health().unready)
        return JSONResponse({"ready": not unready, "missing": unready}, 503 if unready else 200)

    @app.get("/metrics")
    def metrics() -> Response:
        """Return the metrics in Prometheus' text format."""
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return app
