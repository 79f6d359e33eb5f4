"""Runs, asked for and looked at through the API."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import pytest

from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import TableId
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.store.memory import MemoryStore
from tests.unit.http.conftest import House

COMPACT = "/v1/tables/trips/services/compaction/runs"


def test_a_run_that_is_asked_for_skips_its_trigger(house: House) -> None:
    """Three commits are far from the thousand of the trigger; the run is new, and does the work."""
    answer = house.api.post(COMPACT)
    ended = house.moments.ending()

    run = answer.json()
    assert (answer.status_code, run["reason"], run["requested_by"]) == (202, "asked for", "api")
    assert (ended.id, ended.state, house.lake.log_files) == (run["id"], RunState.SUCCEEDED, 0)


def test_a_run_can_be_looked_up_after_its_end(house: House) -> None:
    """The run says when it began and ended, what instant it made, and how it went."""
    run = house.api.post(COMPACT).json()["id"]
    house.moments.ending()

    shown = house.api.get(f"/v1/runs/{run}").json()

    assert (shown["id"], shown["table"], shown["service"], shown["state"]) == (run, "trips", "compaction", "SUCCEEDED")
    assert shown["created_at"] <= shown["started_at"] <= shown["ended_at"]
    assert shown["run_seconds"] >= 0
    assert shown["instant"]


def test_asking_twice_gives_the_run_that_is_already_active(house: House) -> None:
    """There is one run at a time, and the second answer says which, and what it waits for."""
    house.lake.begin_write()
    first = house.api.post(COMPACT)
    waits_for = house.moments.wait()

    second = house.api.post(COMPACT)

    assert (first.status_code, second.status_code) == (202, 200)
    assert first.json()["id"] == second.json()["id"]
    assert house.api.get(f"/v1/runs/{first.json()['id']}").json()["waits_for"] == waits_for
    assert house.api.get("/v1/tables/trips").json()["services"]["compaction"]["active_run"] == first.json()["id"]


def test_a_block_is_never_skipped(house: House) -> None:
    """What blocks a service is the answer, with what would unblock it, and nothing was run."""
    house.api.post("/v1/tables/trips/pause", json={"reason": "hands off"}).raise_for_status()

    answer = house.api.post(COMPACT)

    assert answer.status_code == 409
    assert answer.json() == {"error": {"code": "blocked", "message": "paused: hands off", "remedy": "resume it"}}
    assert house.api.get("/v1/runs").json() == []


@pytest.mark.parametrize("pause", ["/v1/pause", "/v1/tables/trips/pause"])
def test_a_pause_ends_with_its_resume(house: House, pause: str) -> None:
    """Pausing a table and pausing everything both hold, until the one who paused resumes."""
    assert house.api.post(pause).status_code == 204
    assert house.api.post(COMPACT).status_code == 409

    assert house.api.post(pause.replace("pause", "resume")).status_code == 204
    assert house.api.post(COMPACT).status_code == 202


@pytest.mark.parametrize("service", ["clustering", "bogus"])
def test_a_service_without_a_policy_is_not_found(house: House, service: str) -> None:
    """The answer names the services that could be asked for."""
    answer = house.api.post(f"/v1/tables/trips/services/{service}/runs")

    assert answer.status_code == 404
    assert answer.json()["error"]["message"].endswith("it has: compaction, clean")


def test_runs_are_listed_newest_first_and_can_be_chosen(house: House) -> None:
    """Table, service, states and a limit narrow the list."""
    ids = []
    for _ in range(2):
        house.lake.write()
        ids.append(house.api.post(COMPACT).json()["id"])
        house.moments.ending()

    def listed(query: str) -> list[str]:
        return [run["id"] for run in house.api.get(f"/v1/runs?{query}").json()]

    assert listed("") == ids[::-1]
    assert listed("limit=1") == ids[1:]
    assert listed("table=trips&service=compaction&state=SUCCEEDED&state=FAILED") == ids[::-1]
    assert listed("service=clean") == listed("state=QUEUED") == listed("table=other") == []


@pytest.mark.parametrize(
    ("query", "named"), [("limit=0", "query.limit"), ("state=DONE", "query.state.0"), ("service=x", "query.service")]
)
def test_a_query_that_makes_no_sense_is_refused(house: House, query: str, named: str) -> None:
    """The parameter is named, in the one shape of errors."""
    answer = house.api.get(f"/v1/runs?{query}")

    assert answer.status_code == 422
    assert answer.json()["error"]["code"] == "invalid"
    assert answer.json()["error"]["message"].startswith(named)


def test_an_unknown_run_is_not_found(house: House) -> None:
    """Nor is it an error of the server."""
    assert house.api.get("/v1/runs/nope").status_code == 404


class AwayStore(MemoryStore):
    """A store that cannot be read."""

    def __init__(self, trouble: Exception) -> None:
        super().__init__()
        self._trouble = trouble

    def runs(
        self,
        *,
        table: TableId | None = None,
        service: Service | None = None,
        states: Collection[RunState] = (),
        limit: int = 100,
    ) -> Sequence[Run]:
        raise self._trouble


def test_a_store_that_is_away_is_said_to_be_away(a_house: Callable[..., House]) -> None:
    """The caller is told to try again, and when."""
    answer = a_house(store=AwayStore(TemporaryError("the database is away"))).api.get("/v1/runs")

    assert (answer.status_code, answer.headers["retry-after"]) == (503, "10")
    assert answer.json()["error"] == {"code": "unavailable", "message": "the database is away", "remedy": None}


def test_a_bug_is_answered_without_its_stack_trace(a_house: Callable[..., House]) -> None:
    """What went wrong inside is for the log; the caller gets the one shape of errors."""
    answer = a_house(store=AwayStore(ZeroDivisionError("secret"))).api.get("/v1/runs")

    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "internal"
    assert "secret" not in answer.text
