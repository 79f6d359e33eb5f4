"""What patterns and catalogs found, over REST."""

from __future__ import annotations

from tests.unit.service.http.conftest import ServedDaemon


def test_a_daemon_without_patterns_has_no_sources(served: ServedDaemon) -> None:
    """There is nothing to list, and asking for it is no error."""
    assert served.api.get("/v1/discovery").json() == {"items": [], "next": None}
    asked = served.api.post("/v1/discovery/list")
    assert (asked.status_code, asked.json()) == (202, {"sources": 0})
