"""HEAD is answered as GET, without a body."""

from __future__ import annotations

import pytest

from tests.unit.service.http.conftest import ServedDaemon


@pytest.mark.parametrize("path", ["/v1/tables", "/v1/tables/none", "/openapi.json", "/", "/v1/tables?limit=0"])
def test_a_head_is_the_head_of_a_get(served: ServedDaemon, path: str) -> None:
    """With the same status and the same length, also of an error."""
    head, get = served.api.head(path), served.api.get(path)
    assert (head.status_code, head.content) == (get.status_code, b"")
    assert head.headers["content-type"] == get.headers["content-type"]
    assert abs(int(head.headers["content-length"]) - int(get.headers["content-length"])) < 10, "ages have more digits"


def test_a_head_acts_nowhere(served: ServedDaemon) -> None:
    """A route that only acts has no GET, and so no HEAD."""
    answer = served.api.head("/v1/tables/trips/pause")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert served.api.delete("/v1/tables").headers["allow"] == "GET, HEAD"


def test_probes_and_metrics_have_a_head(served: ServedDaemon) -> None:
    """Some load balancers ask with HEAD."""
    for path in ("/livez", "/readyz", "/metrics"):
        assert served.management.head(path).status_code == served.management.get(path).status_code
