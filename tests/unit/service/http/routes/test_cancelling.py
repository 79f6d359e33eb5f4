"""Runs that an operator cancels or retries."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from lakewarden.planners.model.instant import Service, Step
from lakewarden.service.model.run import RunState
from tests.unit.service.http.conftest import ServedDaemon

RUNS = "/v1/tables/trips/services/compaction/runs"


@pytest.fixture
def held(make_served: Callable[..., ServedDaemon], request: pytest.FixtureRequest) -> ServedDaemon:
    """Return a running daemon with a compaction that a worker holds at the step of the parameter."""
    served = make_served()
    for _ in range(3):
        served.lake.write()
    served.pool.hold(Service.COMPACTION, request.param)
    served.start()
    served.look()
    served.api.post(RUNS).raise_for_status()
    while not served.pool.under_way:
        time.sleep(0.01)
    return served


def _newest(served: ServedDaemon) -> str:
    return str(served.api.get("/v1/runs").json()["items"][0]["id"])


@pytest.mark.parametrize("held", [Step.EXECUTE], indirect=True)
def test_a_cancelled_run_takes_no_further_step_and_its_plan_stays_pending(held: ServedDaemon) -> None:
    """It ends as one with a refused permit does. Its service backs off, or its policy would repeat it at once."""
    run = _newest(held)
    answer = held.api.post(f"/v1/tables/trips/runs/{run}/cancel")
    held.pool.release()
    ended = held.moments.ending()

    assert (answer.status_code, answer.json()["id"]) == (202, run)
    assert (ended.id, ended.state) == (run, RunState.CANCELLED)
    assert "cancelled by api" in str(ended.outcome)
    held.look(news=1)
    assert len(held.api.get("/v1/tables/trips/pending").json()["pending"]["compaction"]) == 1
    refused = held.api.post(RUNS)
    assert (refused.status_code, "backing off: cancelled by api" in refused.json()["detail"]) == (409, True)
    [act, *_] = held.api.get("/v1/audit").json()["items"]
    assert (act["kind"], act["before"]) == ("run_cancelled", f"{run} was RUNNING")


@pytest.mark.parametrize("held", [Step.COMMIT], indirect=True)
def test_a_run_that_commits_cannot_be_cancelled(held: ServedDaemon) -> None:
    """Only the timeline would tell what became of it."""
    run = _newest(held)
    refused = held.api.post(f"/v1/tables/trips/runs/{run}/cancel")
    held.pool.release()

    assert refused.status_code == 409
    assert refused.json()["detail"] == f"run {run} is COMMITTING: it has begun to commit, and is left to end"
    assert held.moments.ending().state is RunState.SUCCEEDED


def test_a_cancelled_run_in_the_queue_never_begins(make_served: Callable[..., ServedDaemon]) -> None:
    """It has ended when the answer comes. After a release of its service it is retried."""
    served = make_served(slots=0)
    for _ in range(3):
        served.lake.write()
    served.start()
    served.look()
    run = served.api.post(RUNS).json()["id"]

    cancelled = served.api.post(f"/v1/tables/trips/runs/{run}/cancel").json()
    early = served.api.post(f"/v1/tables/trips/runs/{run}/retry")
    released = served.api.delete("/v1/tables/trips/services/compaction/quarantine")
    retried = served.api.post(f"/v1/tables/trips/runs/{run}/retry")

    assert (cancelled["state"], cancelled["outcome"]) == ("CANCELLED", "cancelled by api")
    assert (early.status_code, early.json()["code"]) == (409, "blocked")
    assert released.status_code == 204
    assert (retried.status_code, retried.json()["state"]) == (202, "QUEUED")
    assert retried.json()["id"] != run


def test_what_has_ended_is_not_cancelled_and_what_has_succeeded_is_not_retried(served: ServedDaemon) -> None:
    """409 with the state. 404 for a run of another table, or for none."""
    run = served.api.post(RUNS).json()["id"]
    assert served.moments.ending().state is RunState.SUCCEEDED

    for act in ("cancel", "retry"):
        refused = served.api.post(f"/v1/tables/trips/runs/{run}/{act}")
        assert (refused.status_code, "SUCCEEDED" in refused.json()["detail"]) == (409, True)
        assert served.api.post(f"/v1/tables/trips/runs/none/{act}").status_code == 404
        assert served.api.post(f"/v1/tables/nope/runs/{run}/{act}").status_code == 404
