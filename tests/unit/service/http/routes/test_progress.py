"""What a run does now, as the API and the page show it."""

from __future__ import annotations

from collections.abc import Callable

from lakewarden.planners.model.instant import RunId, Service, Step
from tests.unit.service.http.conftest import ServedDaemon

COMPACT = "/v1/tables/trips/services/compaction/runs"


def _begun(served: ServedDaemon) -> RunId:
    """Begin a compaction whose step EXECUTE takes until it is released."""
    served.pool.hold(Service.COMPACTION, Step.EXECUTE)
    run = RunId(served.api.post(COMPACT).json()["id"])
    while not served.pool.under_way:
        served.api.get(f"/v1/runs/{run}")
    return run


def test_a_run_in_a_worker_shows_its_tasks_and_its_plan(served: ServedDaemon) -> None:
    """One run, the list, and the page say the same. Nothing of it is stored."""
    run = _begun(served)
    served.pool.advance(run)
    served.pool.advance(run)

    shown = served.api.get(f"/v1/runs/{run}").json()["progress"]
    listed = served.api.get("/v1/runs").json()["items"][0]["progress"]
    page = served.api.get(f"/runs/{run}", headers={"accept": "text/html"}).text

    assert (shown["step"], shown["tasks_done"], shown["tasks"]) == ("execute", 2, 2)
    assert shown["planned_bytes"] > 0
    assert listed == shown
    assert '<progress max="2" value="2"' in page
    stored = served.store.run(run)
    assert stored is not None
    assert "tasks_done" not in stored.figures


def test_a_run_that_has_ended_has_no_progress(served: ServedDaemon) -> None:
    """Its figures say what it did."""
    run = _begun(served)
    served.pool.release()
    served.moments.ending()

    shown = served.api.get(f"/v1/runs/{run}").json()

    assert (shown["state"], shown["progress"]) == ("SUCCEEDED", None)


def test_another_replica_asks_the_one_that_carries_out_the_run(
    make_served: Callable[..., ServedDaemon], served: ServedDaemon
) -> None:
    """The progress is the same, whichever replica is asked. Without its owner, a run is shown as it is stored."""
    run = _begun(served)
    served.pool.advance(run)
    other = make_served(beside=served)
    other.start()

    shown = other.api.get(f"/v1/runs/{run}").raise_for_status().json()

    assert shown["progress"]["tasks_done"] == 1
    assert shown["progress"] == served.api.get(f"/v1/runs/{run}").json()["progress"]
    served.pool.release()
    served.moments.ending()
    served.stop()
    assert other.api.get(f"/v1/runs/{run}").raise_for_status().json()["state"] == "SUCCEEDED"
