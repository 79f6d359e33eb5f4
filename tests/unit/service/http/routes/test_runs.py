"""Runs, asked for and looked at through the API."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import pytest

from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import Mode, TableId
from lakewarden.service.model.run import Run, RunState
from tests.support.store.memory_store import MemoryStore
from tests.unit.service.http.conftest import ServedDaemon

COMPACT = "/v1/tables/trips/services/compaction/runs"


def test_a_run_that_is_asked_for_skips_its_trigger(served: ServedDaemon) -> None:
    """Three commits are far from the thousand of the trigger; the run is new, and does the work. It can be looked up
    after its end.
    """
    answer = served.api.post(COMPACT)
    ended = served.moments.ending()

    run = answer.json()
    assert (answer.status_code, run["reason"], run["requested_by"]) == (202, "requested manually", "api")
    assert (ended.id, ended.state, served.lake.log_files) == (run["id"], RunState.SUCCEEDED, 0)
    shown = served.api.get(f"/v1/runs/{ended.id}").json()
    assert (shown["table"], shown["service"], shown["state"]) == ("trips", "compaction", "SUCCEEDED")
    assert shown["created_at"] <= shown["started_at"] <= shown["ended_at"]
    assert shown["run_seconds"] >= 0
    assert shown["instant"]


def test_asking_twice_gives_the_run_that_is_already_active(served: ServedDaemon) -> None:
    """There is one run at a time, and the second answer says which, and what it waits for."""
    served.lake.begin_write()
    first = served.api.post(COMPACT)
    waits_for = served.moments.wait()

    second = served.api.post(COMPACT)

    assert (first.status_code, second.status_code) == (202, 200)
    assert first.json()["id"] == second.json()["id"]
    assert served.api.get(f"/v1/runs/{first.json()['id']}").json()["waits_for"] == waits_for
    assert served.api.get("/v1/tables/trips").json()["services"]["compaction"]["active_run"] == first.json()["id"]


def test_a_block_is_never_skipped(served: ServedDaemon) -> None:
    """What blocks a service is the answer, with what would unblock it, and nothing was run."""
    served.api.post("/v1/tables/trips/pause", json={"reason": "hands off"}).raise_for_status()

    answer = served.api.post(COMPACT)

    assert answer.status_code == 409
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json() == {
        "type": "urn:lakewarden:problem:blocked",
        "title": "It cannot be done now",
        "status": 409,
        "detail": "paused: hands off",
        "instance": "/v1/tables/trips/services/compaction/runs",
        "code": "blocked",
        "remedy": "resume it: `lakewarden tables resume trips`",
    }
    assert served.api.get("/v1/runs").json() == {"items": [], "next": None}


@pytest.mark.parametrize("pause", ["/v1/pause", "/v1/tables/trips/pause"])
def test_a_pause_ends_with_its_resume(served: ServedDaemon, pause: str) -> None:
    """Pausing a table and pausing everything both hold, until the one who paused resumes."""
    assert served.api.post(pause).status_code == 204
    assert served.api.post(COMPACT).status_code == 409

    assert served.api.post(pause.replace("pause", "resume")).status_code == 204
    assert served.api.post(COMPACT).status_code == 202


@pytest.mark.parametrize("service", ["clustering", "bogus"])
def test_a_service_without_a_policy_is_not_found(served: ServedDaemon, service: str) -> None:
    """The answer names the services that could be asked for."""
    answer = served.api.post(f"/v1/tables/trips/services/{service}/runs")

    assert answer.status_code == 404
    assert answer.json()["detail"].endswith("it has: compaction, clean")


class AwayStore(MemoryStore):
    """A store that cannot be read."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def runs(
        self,
        *,
        table: TableId | None = None,
        service: Service | None = None,
        states: Collection[RunState] = (),
        before: RunId | None = None,
        limit: int = 100,
    ) -> Sequence[Run]:
        raise self._error


def test_a_store_that_is_away_is_said_to_be_away(make_served: Callable[..., ServedDaemon]) -> None:
    """The caller reads when to try again."""
    answer = make_served(store=AwayStore(TemporaryError("the database is away"))).api.get("/v1/runs")

    assert (answer.status_code, answer.headers["retry-after"]) == (503, "10")
    assert (answer.json()["code"], answer.json()["detail"]) == ("unavailable", "the database is away")


def test_a_bug_is_answered_without_its_stack_trace(make_served: Callable[..., ServedDaemon]) -> None:
    """What went wrong inside is for the log; the caller gets the one shape of errors."""
    answer = make_served(store=AwayStore(ZeroDivisionError("secret"))).api.get("/v1/runs")

    assert answer.status_code == 500
    assert answer.json()["code"] == "internal"
    assert "secret" not in answer.text


def test_a_run_on_a_table_that_is_only_planned_for_is_refused_with_its_remedy(served: ServedDaemon) -> None:
    """Nothing blocks the service. Its mode does not let it run."""
    [status] = served.composed.status.tables()
    served.composed.offer([replace(status.table, mode=Mode.PLAN)], [], {})
    refused = served.api.post("/v1/tables/trips/services/compaction/runs")
    assert refused.status_code == 409
    assert "the mode of the table only lets it be planned" in refused.text
    assert "set the table's mode to act" in refused.text
