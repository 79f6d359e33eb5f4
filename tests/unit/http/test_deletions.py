"""Approvals and the clean barrier over HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from lakewarden.executors.contract import Step
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import DeletionBudget
from lakewarden.service.model.run import RunState
from tests.support.road import prepare
from tests.unit.http.conftest import House

APPROVAL = "/v1/tables/trips/services/clean/approval"
BARRIER = "/v1/tables/trips/barrier"


@pytest.fixture
def stopped(a_house: Callable[..., House]) -> House:
    """Return a running daemon whose clean was stopped by the table's budget."""
    house = a_house(budget=DeletionBudget(files=0))
    prepare(house.lake)
    house.start()
    house.look()
    house.api.post("/v1/tables/trips/services/clean/runs").raise_for_status()
    assert house.moments.ending().state is RunState.CANCELLED
    house.moments.decision()
    return house


def test_what_waits_for_approval_is_shown_with_where_to_approve_it(stopped: House) -> None:
    """In the table's decision, in the answer to who asks for a run, and in a metric."""
    decision = stopped.api.get("/v1/tables/trips").json()["services"]["clean"]["decision"]
    asked = stopped.api.post("/v1/tables/trips/services/clean/runs")

    assert (decision["decision"], decision["reason"]) == ("Blocked", "would delete 1 files, more than the budget of 0")
    assert decision["remedy"] == f"approve it: POST {APPROVAL}"
    assert (asked.status_code, asked.json()["error"]["remedy"]) == (409, decision["remedy"])
    assert stopped.metric("lakewarden_table_approvals_waiting", table="trips") == 1


def test_an_approval_lets_the_clean_run_once(stopped: House) -> None:
    """204, and the pending plan is completed; there is nothing left to approve then."""
    assert stopped.api.post(APPROVAL, json={"by": "ada"}).status_code == 204
    assert stopped.moments.ending().state is RunState.SUCCEEDED

    again = stopped.api.post(APPROVAL)

    assert (again.status_code, again.json()["error"]["code"]) == (409, "blocked")
    assert stopped.lake.file_versions == 1
    assert stopped.metric("lakewarden_table_approvals_waiting", table="trips") == 0


def test_an_approval_where_nothing_waits_is_refused(house: House) -> None:
    """409 for a service of the table, 404 for one that it has no policy for or a table that is not registered."""
    assert house.api.post(APPROVAL).status_code == 409
    assert house.api.post("/v1/tables/trips/services/archive/approval").status_code == 404
    assert house.api.post("/v1/tables/nope/services/clean/approval").status_code == 404
    assert house.api.post(APPROVAL, json={"who": "ada"}).status_code == 422


def test_a_barrier_answers_how_long_it_waited_and_until_when_it_holds(house: House) -> None:
    """At once where no clean is executing."""
    before = datetime.now(UTC)

    answer = house.api.post(BARRIER, json={"hold": "20s", "wait": "1s"})

    body = answer.raise_for_status().json()
    assert (body["table"], answer.status_code) == ("trips", 200)
    assert 0 <= body["waited_seconds"] < 5
    held = datetime.fromisoformat(body["held_until"]) - before
    assert timedelta(seconds=20) <= held <= timedelta(seconds=25)


def test_a_hold_keeps_a_clean_waiting_until_it_is_released(house: House) -> None:
    """The clean that was asked for goes on when the writer has committed."""
    prepare(house.lake)
    house.api.post(BARRIER, json={"hold": "60s"}).raise_for_status()
    run = house.api.post("/v1/tables/trips/services/clean/runs").json()["id"]
    house.look(news=0)
    assert house.api.get(f"/v1/runs/{run}").json()["state"] == "QUEUED"

    assert house.api.delete(BARRIER).status_code == 204

    assert house.moments.ending().id == run


def test_a_barrier_that_cannot_be_had_in_time_says_so_and_the_api_goes_on(a_house: Callable[..., House]) -> None:
    """503 with a time to try again; meanwhile others are answered: nobody waits on the loop for it."""
    house = a_house()
    prepare(house.lake)
    house.pool.hold(Service.CLEAN, Step.COMMIT)
    house.start()
    house.look()
    house.api.post("/v1/tables/trips/services/clean/runs").raise_for_status()
    while not house.pool.under_way:
        time.sleep(0.01)

    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(house.api.post, BARRIER, json={"wait": "1500ms"})
        for _ in range(5):
            assert house.api.get("/v1/tables").status_code == 200
        assert not waiting.done()
        refused = waiting.result()
    assert refused.status_code == 503
    assert "is COMMITTING: not ended within" in refused.json()["error"]["message"]
    assert int(refused.headers["Retry-After"]) > 0


@pytest.mark.parametrize(
    "body", [{"hold": "61s"}, {"wait": "301s"}, {"hold": 10}, {"hold": "-1s"}, {"holds": "1s"}, {"hold": "ten"}]
)
def test_a_barrier_has_bounds(house: House, body: dict[str, object]) -> None:
    """Nobody stops a table's cleans for long, by mistake or otherwise."""
    assert house.api.post(BARRIER, json=body).status_code == 422


def test_a_barrier_of_an_unknown_table_is_not_found(house: House) -> None:
    """As everywhere."""
    assert house.api.post("/v1/tables/nope/barrier").status_code == 404
    assert house.api.delete("/v1/tables/nope/barrier").status_code == 404
