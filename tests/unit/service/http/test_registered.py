"""What every route says of a table that is not registered, and of a control thread that does not answer."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from datetime import timedelta

import pytest

from lakewarden.service.http.errors import ApiError
from lakewarden.service.http.registered import answered
from tests.unit.service.http.conftest import ServedDaemon


def test_every_route_names_the_table_that_is_not_registered(served: ServedDaemon) -> None:
    """404, in the same words, whatever is asked of it."""
    paths = served.api.get("/openapi.json").raise_for_status().json()["paths"]
    routes = [(method, path) for path, methods in paths.items() for method in methods if "{table}" in path]
    assert len(routes) > 5
    for method, path in routes:
        answer = served.api.request(method, path.format(table="nope", service="clean", run="1", hold="1"))
        said = (answer.status_code, answer.json()["code"], answer.json()["detail"])
        assert said == (404, "not_found", "no table 'nope' is registered"), (method, path)


def test_a_control_thread_that_does_not_answer_is_a_reason_to_ask_again() -> None:
    """503, not 500: nobody knows whether it will act, so the answer says where that is seen."""
    silent: Future[None] = Future()
    with pytest.raises(ApiError, match="is busy: see /v1/runs") as refused:
        asyncio.run(answered(silent, within=timedelta(milliseconds=1)))
    assert (refused.value.status, refused.value.code) == (503, "unavailable")
