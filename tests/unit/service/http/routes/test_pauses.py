"""A pause says what becomes of the runs that are under way."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from lakewarden.cli import main
from lakewarden.cli.exit_codes import Code
from lakewarden.planners.model.instant import Service, Step
from lakewarden.planners.model.table import TableId
from lakewarden.service.model.run import RunState
from tests.unit.service.http.conftest import ServedDaemon

RUNS = "/v1/tables/trips/services/compaction/runs"


def held_at(step: Step, served: ServedDaemon) -> ServedDaemon:
    """Begin a compaction that a worker holds at a step."""
    for _ in range(3):
        served.lake.write()
    served.pool.hold(Service.COMPACTION, step)
    served.start()
    served.look()
    served.api.post(RUNS).raise_for_status()
    while not served.pool.under_way:
        time.sleep(0.01)
    return served


@pytest.mark.parametrize("step", [Step.EXECUTE, Step.COMMIT])
@pytest.mark.parametrize("named", ["trips", "--all"])
def test_a_pause_refuses_the_next_step_of_a_run_and_no_commit_that_was_permitted(
    make_served: Callable[..., ServedDaemon], capsys: pytest.CaptureFixture[str], step: Step, named: str
) -> None:
    """The command line says how it ends."""
    served = held_at(step, make_served())
    assert main(["tables", "pause", named, "--reason", "x", "--url", str(served.api.base_url)]) == Code.DONE
    assert f"is paused: 'lakewarden tables resume {named}' ends it" in capsys.readouterr().out
    served.pool.release()
    assert served.moments.ending().state is (RunState.SUCCEEDED if step is Step.COMMIT else RunState.YIELDED)


# The release of a service from its quarantine.

QUARANTINE = "/v1/tables/trips/services/clean/quarantine"


def test_a_service_in_quarantine_starts_nothing_until_it_is_released(make_served: Callable[..., ServedDaemon]) -> None:
    """The other services of the table go on."""
    served = make_served()
    service_states = served.composed.status._statuses._service_states
    service_states.quarantine(TableId("trips"), Service.CLEAN, "a wrong budget")
    for _ in range(3):
        served.lake.write()
    served.start()
    served.look()
    refused = served.api.post("/v1/tables/trips/services/clean/runs")
    other = served.api.post("/v1/tables/trips/services/compaction/runs")
    assert served.api.delete(QUARANTINE).status_code == 204
    served.moments.ending()

    assert (refused.status_code, refused.json()["detail"]) == (409, "in quarantine: a wrong budget")
    assert other.status_code == 202
    assert served.api.post("/v1/tables/trips/services/clean/runs").status_code in (202, 409)
    kinds = [(one["kind"], one["before"], one["after"]) for one in served.api.get("/v1/audit").json()["items"]]
    assert ("released", "in quarantine: a wrong budget", None) in kinds


def test_a_release_of_what_is_in_no_quarantine_is_not_found(served: ServedDaemon) -> None:
    """As is a service without a policy."""
    assert served.api.delete(QUARANTINE).status_code == 404
    assert served.api.delete("/v1/tables/trips/services/archive/quarantine").status_code == 404


# Runs that an operator cancels.


@pytest.fixture
def held(make_served: Callable[..., ServedDaemon], request: pytest.FixtureRequest) -> ServedDaemon:
    """Return a running daemon with a compaction that a worker holds at the step of the parameter."""
    return held_at(request.param, make_served())


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
    [plan] = held.api.get("/v1/tables/trips/timeline?pending=true").json()["items"]
    assert (plan["stands_for"], plan["run"]) == ("compaction", run)
    refused = held.api.post(RUNS)
    assert (refused.status_code, "backing off: cancelled by api" in refused.json()["detail"]) == (409, True)
    assert "lakewarden quarantine release" in refused.json()["remedy"]
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
    """It has ended when the answer comes. After a release of its service another one may be asked for."""
    served = make_served(slots=0)
    for _ in range(3):
        served.lake.write()
    served.start()
    served.look()
    run = served.api.post(RUNS).json()["id"]

    cancelled = served.api.post(f"/v1/tables/trips/runs/{run}/cancel").json()
    early = served.api.post(RUNS)
    released = served.api.delete("/v1/tables/trips/services/compaction/quarantine")
    another = served.api.post(RUNS)

    assert (cancelled["state"], cancelled["outcome"]) == ("CANCELLED", "cancelled by api")
    assert (early.status_code, early.json()["code"]) == (409, "blocked")
    assert released.status_code == 204
    assert (another.status_code, another.json()["state"]) == (202, "QUEUED")
    assert another.json()["id"] != run


def test_what_has_ended_is_not_cancelled(served: ServedDaemon) -> None:
    """409 with the state. 404 for a run of another table, or for none."""
    run = served.api.post(RUNS).json()["id"]
    assert served.moments.ending().state is RunState.SUCCEEDED

    refused = served.api.post(f"/v1/tables/trips/runs/{run}/cancel")
    assert (refused.status_code, "SUCCEEDED" in refused.json()["detail"]) == (409, True)
    assert served.api.post("/v1/tables/trips/runs/none/cancel").status_code == 404
    assert served.api.post(f"/v1/tables/nope/runs/{run}/cancel").status_code == 404
