"""A request that reaches the wrong replica: it is passed on to the one that owns the table."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from socket import create_server, socket
from typing import Any

import pytest

from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import RunId
from lakewarden.service.http.forwarding import FORWARDED_FOR
from lakewarden.service.model.access import Caller, Role
from lakewarden.service.model.replica import ReplicaId
from lakewarden.service.model.run import Run
from tests.support.store.memory_store import MemoryStore
from tests.unit.service.http.conftest import ServedDaemon


class Two:
    """The table's owner, and another replica on the same store that has no table."""

    def __init__(self, make_served: Callable[..., ServedDaemon], start_served: Callable[..., ServedDaemon]) -> None:
        self.owner = start_served()
        self.other = make_served(beside=self.owner)
        self.other.start()


@pytest.fixture
def two(make_served: Callable[..., ServedDaemon], start_served: Callable[..., ServedDaemon]) -> Two:
    return Two(make_served, start_served)


OF_THE_MOMENT = ("observed_seconds_ago", "explained_at")
ASKED = [
    ("GET", "/v1/tables/trips", None),
    ("GET", "/v1/tables/trips/timeline?pending=true", None),
    ("GET", "/v1/tables/trips/explain", None),
    ("GET", "/v1/tables/trips/services/compaction/dry-run", None),
    ("GET", "/v1/tables/trips/writer-options?engine=flink", None),
    ("GET", "/v1/tables/trips/writer-options?engine=bogus", None),
    ("POST", "/v1/tables/trips/services/bogus/runs", None),
    ("POST", "/v1/tables/trips/services/%C3%A9/runs", None),
    ("POST", "/v1/tables/trips/services/%ff%ED%A0%80/runs", None),
    ("POST", "/v1/tables/trips/services/x%20y%3fz/runs", None),
    ("POST", "/v1/tables/trips/services/x%0d%0aHost:%20evil/runs", None),
    ("POST", "/v1/tables/trips/services/clean/approval", {"by": "me"}),
    ("POST", "/v1/tables/trips/pause", {"reason": 3}),
    ("DELETE", "/v1/tables/trips/barrier", None),
    ("PUT", "/v1/tables/trips/pause", None),
]


@pytest.mark.parametrize(("method", "path", "body"), ASKED)
def test_the_answer_is_the_owners_unchanged(two: Two, method: str, path: str, body: Any) -> None:
    """Its status, its content and its headers, be it a refusal."""

    def ask(served: ServedDaemon) -> tuple[int, Any, Any]:
        answer = served.api.request(method, path, json=body)
        content = answer.json() if answer.content else None
        if isinstance(content, dict):
            content = {key: value for key, value in content.items() if key not in OF_THE_MOMENT}
        return answer.status_code, content, answer.headers.get("content-type")

    assert ask(two.other) == ask(two.owner)


def test_a_run_that_is_asked_for_at_the_wrong_replica_is_carried_out_by_the_right_one(two: Two) -> None:
    """The asker learns of the run, and the owner's worker takes it up."""
    answer = two.other.api.post("/v1/tables/trips/services/compaction/runs")

    assert answer.status_code == 202
    run = two.owner.moments.ending()
    assert run.id == answer.json()["id"]
    assert run.owner == two.owner.composed.replica_lease.replica


def test_what_is_not_about_one_table_is_answered_here(two: Two) -> None:
    """Lists, runs, and the pause of everything: every replica knows them."""
    [listed] = two.other.api.get("/v1/tables").json()["items"]
    assert (listed["id"], listed["owner"]) == ("trips", two.owner.composed.replica_lease.replica)
    assert listed["observed_at"] is None
    assert two.other.api.get("/v1/runs").json()["items"] == []
    assert two.other.api.post("/v1/pause").status_code == 204
    assert two.other.api.get("/v1/tables/nowhere").status_code == 404


def test_replicas_are_listed_with_the_tables_that_each_owns(two: Two) -> None:
    """Each daemon says which of them it is itself."""
    ours, others = two.other.api.get("/v1/replicas").json()["items"][::-1]

    assert (ours["here"], ours["alive"], ours["tables"]) == (True, True, 0)
    assert others == {
        "id": two.owner.composed.replica_lease.replica,
        "url": f"http://127.0.0.1:{two.owner.port}",
        "alive": True,
        "here": False,
        "tables": 1,
    }
    assert two.other.metric("lakewarden_replicas") == 2
    assert two.other.metric("lakewarden_tables_owned") == 0


def test_an_owner_that_cannot_be_reached_is_named(two: Two) -> None:
    """503, and when to ask again: by then somebody owns the table."""
    two.owner._life.close()

    answer = two.other.api.get("/v1/tables/trips")

    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    message = answer.json()["detail"]
    assert f"replica {two.owner.composed.replica_lease.replica} owns table trips, and cannot be reached at" in message


def test_the_page_of_one_replica_acts_on_the_table_of_another(two: Two) -> None:
    """A browser names the replica that it has the page from. That one has judged it."""
    page = str(two.other.api.base_url)
    browser = {"Origin": page, "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}

    assert two.other.api.post("/v1/tables/trips/pause", headers=browser).status_code == 204
    foreign = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    assert two.other.api.post("/v1/tables/trips/resume", headers=foreign).status_code == 403
    assert two.owner.api.get("/v1/tables/trips").json()["paused"] is not None


class Hanging:
    """In the place of the owner: it takes requests, and answers none."""

    def __init__(self, two: Two) -> None:
        two.owner._life.close()
        self._listening = create_server(("127.0.0.1", two.owner.port), backlog=64)
        self._taken: list[socket] = []

    def take(self, number: int) -> None:
        """Return when so many requests have come."""
        for _ in range(number):
            self._taken.append(self._listening.accept()[0])
            assert self._taken[-1].recv(2**16)

    def end(self) -> None:
        """Close every connection without an answer."""
        for one in (*self._taken, self._listening):
            one.close()


def test_a_read_does_not_wait_for_an_owner_that_hangs_or_behind_those_that_wait_for_it(two: Two) -> None:
    """Each barrier may wait for minutes. An act may have been carried out: it is not told as one that was not done."""
    hanging = Hanging(two)
    with ThreadPoolExecutor(17) as clients:
        waiting = [clients.submit(two.other.api.post, "/v1/tables/trips/barrier") for _ in range(16)]
        hanging.take(16)
        read = two.other.api.get("/v1/tables/trips")
        paused = clients.submit(two.other.api.post, "/v1/tables/trips/pause")
        hanging.take(2)
        hanging.end()
        acts = [one.result() for one in (*waiting, paused)]

    assert (read.status_code, read.headers["retry-after"]) == (503, "5")
    assert "owns table trips, and does not answer at" in read.json()["detail"]
    assert {(one.status_code, one.json()["code"]) for one in acts} == {(503, "outcome_unknown")}
    assert not [one for one in acts if "retry-after" in one.headers or "not known whether" not in one.json()["detail"]]


def test_a_request_is_passed_on_once_only(two: Two) -> None:
    """Two replicas that each believe the other owns a table would send it back and forth for ever."""
    answer = two.other.api.get("/v1/tables/trips", headers={FORWARDED_FOR: "trips"})

    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert "owns table trips now" in answer.json()["detail"]


def test_a_table_that_nobody_owns_can_be_looked_at_and_not_acted_on(make_served: Callable[..., ServedDaemon]) -> None:
    """Its owner has died a moment ago: what the store and the configuration say is still right."""
    served = make_served()

    assert served.api.get("/v1/tables/trips").json()["owner"] is None
    answer = served.api.post("/v1/tables/trips/services/compaction/runs")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert answer.json()["detail"] == "no replica owns table trips right now: try again in a few seconds"


def test_a_hook_for_anothers_table_is_taken(two: Two) -> None:
    """The writer has done its part, wherever it was told to send it; the owner looks."""
    two.owner.lake.write()

    answer = two.other.api.post("/v1/hooks/hudi", json={"basePath": str(two.owner.lake.folder)})

    assert (answer.status_code, answer.json()["result"]) == (202, "accepted")
    two.owner.moments.decision()


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


def test_without_its_store_the_daemon_is_alive_and_not_ready(make_served: Callable[..., ServedDaemon]) -> None:
    """It is not to be started again for that; requests get 503 and when to come again, and it is ready again after."""
    clock = ManualClock()
    store = AwayStore(clock=clock)
    served = make_served(clock=clock, store=store)
    served.composed.daemon.start()
    assert served.management.get("/readyz").status_code == 200

    store.away = True
    clock.advance(served.composed.replica_lease.terms.renew_every)
    served.composed.replica_lease.renew()
    served.composed.daemon.turn()

    assert served.management.get("/livez").status_code == 200
    assert served.management.get("/readyz").json()["missing"] == [
        "the store does not answer: the store does not answer"
    ]
    answer = served.api.get("/v1/runs/r1")
    assert (answer.status_code, "retry-after" in answer.headers) == (503, True)
    assert served.metric("lakewarden_lease_renew_failures_total") == 1

    store.away = False
    clock.advance(served.composed.replica_lease.terms.renew_every)
    served.composed.replica_lease.renew()
    served.composed.daemon.turn()
    assert served.management.get("/readyz").status_code == 200
    assert served.metric("lakewarden_lease_renew_failures_total") == 1


def test_without_its_lease_the_daemon_is_not_ready(make_served: Callable[..., ServedDaemon]) -> None:
    """It owns nothing until the store gives it a new lease, and counts that."""
    clock = ManualClock()
    served = make_served(clock=clock, store=MemoryStore(clock=clock))
    served.composed.daemon.start()

    clock.advance(served.composed.replica_lease.terms.safe)
    assert served.management.get("/readyz").status_code == 503
    served.composed.replica_lease.watch()
    served.composed.daemon.turn()

    assert served.management.get("/readyz").status_code == 200
    assert served.metric("lakewarden_lease_losses_total") == 1
    assert served.metric("lakewarden_tables_owned") == 1


def test_the_key_of_the_caller_is_passed_on_to_the_owner(
    make_served: Callable[..., ServedDaemon], start_served: Callable[..., ServedDaemon]
) -> None:
    """The owner checks the key itself. It does not believe the replica that passes the request on."""
    known = {b"the key": Caller(name="alice", role=Role.TRIGGER, key="1")}
    owner = start_served(identify=known.get)
    other = make_served(beside=owner, identify=lambda _key: Caller(name="mallory", role=Role.ADMIN, key="2"))
    other.start()
    assert owner.api.get("/v1/tables").status_code == 401

    path = "/v1/tables/trips/services/clean/runs"
    run = other.api.post(path, headers={"Authorization": "Bearer the key"})
    assert run.json()["requested_by"] == "alice"
    assert other.api.post(path, headers={"Authorization": "Bearer another"}).status_code == 401
    refused = other.api.post("/v1/tables/trips/pause", headers={"X-API-Key": "the key"})
    assert refused.status_code == 403
    assert "the key of alice has the role trigger" in refused.json()["detail"]
