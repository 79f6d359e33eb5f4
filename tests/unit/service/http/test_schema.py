"""What the OpenAPI of both ports says is what they answer: generated requests, valid and invalid ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from prometheus_client import CollectorRegistry
from schemathesis.specs.openapi.checks import positive_data_acceptance

from docs.nothing import empty_room
from lakewarden.planners.model.clock import SystemClock
from lakewarden.service.config.daemon.http_limits import LimitSettings
from lakewarden.service.http.api import build_api
from lakewarden.service.http.management import build_management
from lakewarden.testing.fake import FAKE
from tests.unit.service.http.conftest import ServedDaemon

_EXAMPLES = 12
"""So many requests of each operation: the test takes about a minute."""

_ENDS_THE_DAEMON = "/v1/drain"
_LOOSE = ("/v1/hooks/", "/barrier", "/debt", "/explain")
"""OpenAPI cannot say which bodies of senders, which durations and which past moments are accepted."""

_PLANE = empty_room().status
_API = schemathesis.openapi.from_dict(
    build_api(_PLANE, clock=SystemClock(), hook_heard=lambda *_: None, formats={FAKE.name: FAKE}).openapi()
)
_MANAGEMENT = schemathesis.openapi.from_dict(build_management(_PLANE, CollectorRegistry()).openapi())


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedDaemon]:
    """Return a running daemon that has observed a table, and refuses no client for the number of its requests."""
    folder: Path = tmp_path_factory.mktemp("schema")
    served = ServedDaemon(folder, limits=LimitSettings(requests_by_sender=10_000))
    try:
        for _ in range(3):
            served.lake.write()
        served.start()
        served.look()
        yield served
    finally:
        served.stop()


def _tried(case: Any, url: str) -> None:
    loose = any(part in case.path for part in _LOOSE) or "Idempotency-Key" in (case.headers or {})
    excluded = [positive_data_acceptance] if loose else []
    if "table" in case.path_parameters and case.path_parameters["table"] not in ("", None):
        case.path_parameters["table"] = "trips"
    case.call_and_validate(base_url=url, excluded_checks=excluded, timeout=60)


@_API.exclude(path=_ENDS_THE_DAEMON).parametrize()
@settings(max_examples=_EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_the_api_answers_as_its_openapi_says(daemon: ServedDaemon, case: Any) -> None:
    """No server error, no answer that is not declared, no body of another shape, and no invalid request accepted."""
    _tried(case, str(daemon.api.base_url))


@_MANAGEMENT.parametrize()
@settings(max_examples=_EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_the_management_port_answers_as_its_openapi_says(daemon: ServedDaemon, case: Any) -> None:
    """The same for probes and metrics."""
    _tried(case, str(daemon.management.base_url))
