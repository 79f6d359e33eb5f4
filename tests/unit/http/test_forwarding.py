"""A request that reaches the wrong replica: it is passed on to the one that attends the table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import RunId
from lakewarden.service.http.forwarding import FORWARDED_FOR
from lakewarden.service.model.replica import ReplicaId
from lakewarden.service.model.run import Run
from lakewarden.service.store.memory import MemoryStore
from tests.unit.http.conftest import House


class Two:
    """The table's attendant, and another replica on the same store that has no table."""

    def __init__(self, a_house: Callable[..., House]) -> None:
        self.attendant = a_house()
        for _ in range(3):
            self.attendant.lake.write()
        self.attendant.start()
        self.attendant.look()
        self.other = a_house(beside=self.attendant)
        self.other.start()


@pytest.fixture
def two(a_house: Callable[..., House]) -> Two:
    return Two(a_house)


OF_THE_MOMENT = ("looked_seconds_ago", "explained_at")
ASKED = [
    ("GET", "/v1/tables/trips", None),
    ("GET", "/v1/tables/trips/pending", None),
    ("GET", "/v1/tables/trips/explain", None),
    ("GET", "/v1/tables/trips/writer-options?engine=flink", None),
    ("GET", "/v1/tables/trips/writer-options?engine=bogus", None),
    ("POST", "/v1/tables/trips/services/bogus/runs", None),
    ("POST", "/v1/tables/trips/services/clean/approval", {"by": "me"}),
    ("POST", "/v1/tables/trips/pause", {"reason": 3}),
    ("DELETE", "/v1/tables/trips/barrier", None),
    ("PUT", "/v1/tables/trips/pause", None),
]


@pytest.mark.parametrize(("method", "path", "body"), ASKED)
def test_the_answer_is_the_attendants_unchanged(two: Two, method: str, path: str, body: Any) -> None:
    """Its status, its content and its headers, be it a refusal."""

    def ask(house: House) -> tuple[int, Any, Any]:
        answer = house.api.request(method, path, json=body)
        content = answer.json() if answer.content else None
        if isinstance(content, dict):
            content = {key: value for key, value in content.items() if key not in OF_THE_MOMENT}
        return answer.status_code, content, answer.headers.get("content-type")

    assert ask(two.other) == ask(two.attendant)


def test_a_run_that_is_asked_for_at_the_wrong_replica_is_carried_out_by_the_right_one(two: Two) -> None:
    """The asker learns of the run, and the attendant's worker takes it up."""
    answer = two.other.api.post("/v1/tables/trips/services/compaction/runs")

    assert answer.status_code == 202
    run = two.attendant.moments.ending()
    assert run.id == answer.json()["id"]
    assert run.owner == two.attendant.room.tenure.replica


def test_what_is_not_about_one_table_is_answered_here(two: Two) -> None:
    """Lists, runs, and the pause of everything: every replica knows them."""
    [listed] = two.other.api.get("/v1/tables").json()
    assert (listed["id"], listed["attended_by"]) == ("trips", two.attendant.room.tenure.replica)
    assert listed["observed_at"] is None
    assert two.other.api.get("/v1/runs").json() == []
    assert two.other.api.post("/v1/pause").status_code == 204
    assert two.other.api.get("/v1/tables/nowhere").status_code == 404


def test_replicas_are_listed_with_the_tables_that_each_attends(two: Two) -> None:
    """Each daemon says which of them it is itself."""
    ours, others = two.other.api.get("/v1/replicas").json()[::-1]

    assert (ours["here"], ours["alive"], ours["tables"]) == (True, True, 0)
    assert others == {
        "id": two.attendant.room.tenure.replica,
        "url": f"http://127.0.0.1:{two.attendant.port}",
        "alive": True,
        "here": False,
        "tables": 1,
    }
    assert two.other.metric("lakewarden_replicas") == 2
    assert two.other.metric("lakewarden_tables_attended") == 0


def test_an_attendant_that_cannot_be_reached_is_named(two: Two) -> None:
    """503, and when to ask again: by then somebody attends the table."""
    two.attendant._life.close()

    answer = two.other.api.get("/v1/tables/trips")

    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    message = answer.json()["error"]["message"]
    assert f"replica {two.attendant.room.tenure.replica} attends table trips, and cannot be reached at" in message


def test_a_request_is_passed_on_once_only(two: Two) -> None:
    """Two replicas that each believe the other attends a table would send it back and forth for ever."""
    answer = two.other.api.get("/v1/tables/trips", headers={FORWARDED_FOR: "trips"})

    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert "attends table trips now" in answer.json()["error"]["message"]


def test_a_table_that_nobody_attends_can_be_looked_at_and_not_acted_on(a_house: Callable[..., House]) -> None:
    """Its attendant has died a moment ago: what the store and the configuration say is still right."""
    house = a_house()

    assert house.api.get("/v1/tables/trips").json()["attended_by"] is None
    answer = house.api.post("/v1/tables/trips/services/compaction/runs")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert answer.json()["error"]["message"] == "no replica attends table trips at the moment: ask again soon"


def test_a_hook_for_anothers_table_is_taken(two: Two) -> None:
    """The writer has done its part, wherever it was told to send it; the attendant looks."""
    two.attendant.lake.write()

    answer = two.other.api.post("/v1/hooks/hudi", json={"basePath": str(two.attendant.lake.folder)})

    assert (answer.status_code, answer.json()["result"]) == (202, "accepted")
    two.attendant.moments.decision()


class AwayStore(MemoryStore):
    """A store that stops to answer."""

    away = False

    def run(self, run: RunId) -> Run | None:
        self._answer()
        return super().run(run)

    def renew(self, replica: ReplicaId, **more: Any) -> bool:
        self._answer()
        return super().renew(replica, **more)

    def take_dirty(self, replica: ReplicaId) -> frozenset[str]:
        self._answer()
        return super().take_dirty(replica)

    def _answer(self) -> None:
        if self.away:
            raise TemporaryError("the store does not answer")


def test_without_its_store_the_daemon_is_alive_and_not_ready(a_house: Callable[..., House]) -> None:
    """It is not to be started again for that; requests get 503 and when to come again, and it is ready again after."""
    clock = ManualClock()
    store = AwayStore(clock=clock)
    house = a_house(clock=clock, store=store)
    house.room.daemon.start()
    assert house.management.get("/readyz").status_code == 200

    store.away = True
    clock.advance(house.room.tenure.terms.renew_every)
    house.room.tenure.renew()
    house.room.daemon.turn()

    assert house.management.get("/livez").status_code == 200
    assert house.management.get("/readyz").json()["missing"] == ["the store does not answer: the store does not answer"]
    answer = house.api.get("/v1/runs/r1")
    assert (answer.status_code, "retry-after" in answer.headers) == (503, True)
    assert house.metric("lakewarden_lease_renew_failures_total") == 1

    store.away = False
    clock.advance(house.room.tenure.terms.renew_every)
    house.room.tenure.renew()
    house.room.daemon.turn()
    assert house.management.get("/readyz").status_code == 200
    assert house.metric("lakewarden_lease_renewals_total") == 1


def test_without_its_tenure_the_daemon_is_not_ready(a_house: Callable[..., House]) -> None:
    """It attends nothing until the store gives it a new lease, and counts that."""
    clock = ManualClock()
    house = a_house(clock=clock, store=MemoryStore(clock=clock))
    house.room.daemon.start()

    clock.advance(house.room.tenure.terms.safe)
    assert house.management.get("/readyz").status_code == 503
    house.room.tenure.watch()
    house.room.daemon.turn()

    assert house.management.get("/readyz").status_code == 200
    assert house.metric("lakewarden_tenure_losses_total") == 1
    assert house.metric("lakewarden_tables_attended") == 1
