"""`GET .../dry-run`: what a request for a run would meet, in a sentence and in numbers."""

from __future__ import annotations

from lakewarden.service.model.run import RunState
from tests.unit.service.http.conftest import ServedDaemon

DRY = "/v1/tables/trips/services/compaction/dry-run"


def test_it_says_whether_a_run_would_begin_and_what_it_would_do(served: ServedDaemon) -> None:
    """By what is on the table now. No run is made."""
    served.lake.write()
    answer = served.api.get(DRY)
    body = answer.json()

    assert (answer.status_code, body["begins"], body["decision"], body["code"]) == (200, True, "Due", "due")
    assert (body["instant"], body["active_run"], body["remedy"]) == (None, None, None)
    assert body["forecast"]["basis"] == "none"
    assert body["says"].startswith("a run would begin now. It would make a plan. ")
    assert served.api.get("/v1/runs").json()["items"] == []


def test_a_refusal_has_the_reason_and_the_remedy_of_the_request(served: ServedDaemon) -> None:
    """Both are those that the request itself would be answered with."""
    served.api.post("/v1/tables/trips/pause", json={"reason": "a migration"}).raise_for_status()

    body = served.api.get(DRY).json()
    refused = served.api.post("/v1/tables/trips/services/compaction/runs").json()

    assert (body["begins"], body["decision"]) == (False, "Blocked")
    assert (body["reason"], body["remedy"]) == (refused["detail"], refused["remedy"])
    assert body["says"] == f"no run would begin: {body['reason']}"


def test_it_forecasts_by_the_runs_of_the_table(served: ServedDaemon) -> None:
    """The time of the last one."""
    served.api.post("/v1/tables/trips/services/compaction/runs").raise_for_status()
    assert served.moments.ending().state is RunState.SUCCEEDED
    served.lake.write()

    found = served.api.get(DRY).json()["forecast"]

    assert (found["runs"], found["basis"]) == (1, "own")
    assert found["seconds"] is not None
