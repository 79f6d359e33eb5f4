"""The OpenAPI of both ports, from their routes: `python -m docs.openapi` writes `openapi.json` and its like anew."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from docs.nothing import empty_room
from docs.rest import OPENAPI, OPENAPI_MANAGEMENT
from lakewarden.planners.model.clock import SystemClock
from lakewarden.service.http.api import build_api
from lakewarden.service.http.management import build_management


def documented() -> Mapping[str, Mapping[str, Any]]:
    """Return the OpenAPI of each port by its heading."""
    plane = empty_room().status
    return {
        "API port": build_api(plane, clock=SystemClock(), hook_heard=lambda _heard: None).openapi(),
        "Management port": build_management(plane, CollectorRegistry()).openapi(),
    }


def described() -> Mapping[Path, str]:
    """Return the OpenAPI of each port by its file, as it is committed."""
    files = dict(zip(documented(), (OPENAPI, OPENAPI_MANAGEMENT), strict=True))
    return {file: json.dumps(documented()[port], indent=1, sort_keys=True) + "\n" for port, file in files.items()}


if __name__ == "__main__":
    for file, content in described().items():
        file.write_text(content, encoding="utf-8")
