"""Quarantine by an operator, and release."""

from __future__ import annotations

from tests.unit.service.http.conftest import ServedDaemon

QUARANTINE = "/v1/tables/trips/services/clean/quarantine"


def test_a_service_in_quarantine_starts_nothing_until_it_is_released(served: ServedDaemon) -> None:
    """The other services of the table go on."""
    assert served.api.post(QUARANTINE, json={"reason": "a wrong budget"}).status_code == 204
    refused = served.api.post("/v1/tables/trips/services/clean/runs")
    other = served.api.post("/v1/tables/trips/services/compaction/runs")
    assert served.api.delete(QUARANTINE).status_code == 204
    served.moments.ending()

    assert (refused.status_code, refused.json()["detail"]) == (409, "in quarantine: a wrong budget")
    assert other.status_code == 202
    assert served.api.post("/v1/tables/trips/services/clean/runs").status_code in (202, 409)
    kinds = [(one["kind"], one["before"], one["after"]) for one in served.api.get("/v1/audit").json()["items"]]
    assert ("quarantined", None, "a wrong budget") in kinds
    assert ("released", "in quarantine: a wrong budget", None) in kinds


def test_a_release_of_what_is_in_no_quarantine_is_not_found(served: ServedDaemon) -> None:
    """As is a service without a policy."""
    assert served.api.delete(QUARANTINE).status_code == 404
    assert served.api.delete("/v1/tables/trips/services/archive/quarantine").status_code == 404
    assert served.api.post(QUARANTINE, json={"why": "x"}).status_code == 422
