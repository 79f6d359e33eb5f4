"""`Idempotency-Key`: a request that is sent again acts once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import httpx
import pytest

from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.service.model.access import Caller, Role
from lakewarden.service.model.acts import Act
from lakewarden.service.model.answers import AnswerRow
from lakewarden.service.model.replica import ReplicaId
from tests.support.store.memory_store import MemoryStore
from tests.unit.service.http.conftest import ServedDaemon

PAUSE = "/v1/tables/trips/pause"
COMPACT = "/v1/tables/trips/services/compaction/runs"
KEYS = {
    b"alice": Caller(name="alice", role=Role.OPERATOR, key="1"),
    b"bob": Caller(name="bob", role=Role.OPERATOR, key="2"),
}


class TroubledStore(MemoryStore):
    """A store in which acts, or answers, cannot be written for a time, or wait."""

    def __init__(self) -> None:
        super().__init__()
        self.acts_fail = self.answers_fail = False
        self.go_on = threading.Event()
        self.waits = threading.Event()
        self.go_on.set()

    def note_act(self, act: Act) -> None:
        self.waits.set()
        assert self.go_on.wait(60)
        if self.acts_fail:
            raise TemporaryError("the disk is full")
        super().note_act(act)

    def keep_answer(self, row: AnswerRow) -> None:
        if self.answers_fail:
            raise TemporaryError("the disk is full")
        super().keep_answer(row)


@pytest.fixture
def store() -> TroubledStore:
    return TroubledStore()


@pytest.fixture
def served(make_served: Callable[..., ServedDaemon], store: TroubledStore) -> ServedDaemon:
    """Return a running daemon on that store, with two operators."""
    served = make_served(store=store, identify=KEYS.get)
    served.lake.write()
    served.start()
    return served


def _sent(served: ServedDaemon, key: str, path: str = PAUSE, *, by: str = "alice", **body: Any) -> httpx.Response:
    headers = {"X-API-Key": by, "Idempotency-Key": key}
    return served.api.post(path, headers=headers, json=body or None)


def _acts(store: MemoryStore) -> list[str]:
    return [act.kind.value for act in reversed(store.acts())]


def test_a_request_that_is_sent_again_acts_once_and_gets_the_same_answer(
    served: ServedDaemon, store: TroubledStore
) -> None:
    """Also if the table was resumed, or the run has ended, since: then the second request is late, and does nothing."""
    first = _sent(served, "one", reason="a migration")
    served.api.post("/v1/tables/trips/resume", headers={"X-API-Key": "alice"}).raise_for_status()
    second = _sent(served, "one", reason="a migration")

    assert (first.status_code, first.headers.get("Idempotent-Replayed")) == (204, None)
    assert (second.status_code, second.content, second.headers["Idempotent-Replayed"]) == (204, b"", "true")
    assert _acts(store) == ["paused", "resumed"]

    run = _sent(served, "one", COMPACT)
    served.moments.ending()
    again = _sent(served, '"one"', COMPACT)
    assert (run.status_code, again.status_code, again.json()) == (202, 202, run.json())
    assert again.headers["content-type"] == "application/json"
    assert len(store.runs()) == 1


def test_a_key_with_another_body_is_refused(served: ServedDaemon, store: TroubledStore) -> None:
    """The client has made a mistake, and neither answer would be right."""
    _sent(served, "one", reason="a migration")
    answer = _sent(served, "one", reason="another")
    assert (answer.status_code, answer.json()["code"]) == (422, "conflict")
    assert _acts(store) == ["paused"]


def test_keys_of_two_callers_have_nothing_to_do_with_each_other(served: ServedDaemon, store: TroubledStore) -> None:
    """No caller gets the answer to the request of another one."""
    assert "Idempotent-Replayed" not in _sent(served, "one", reason="a").headers
    assert "Idempotent-Replayed" not in _sent(served, "one", reason="a", by="bob").headers
    assert _acts(store) == ["paused", "paused"]


def test_while_a_request_is_carried_out_the_same_one_waits_outside(served: ServedDaemon, store: TroubledStore) -> None:
    """It is told when to ask again, and gets the answer then."""
    store.go_on.clear()
    assert served.api is not None
    with ThreadPoolExecutor(1) as thread:
        first = thread.submit(_sent, served, "one", reason="a")
        assert store.waits.wait(60)
        second = _sent(served, "one", reason="a")
        store.go_on.set()
        assert first.result(60).status_code == 204
    assert (second.status_code, second.json()["code"], second.headers["Retry-After"]) == (409, "conflict", "1")
    assert _sent(served, "one", reason="a").headers["Idempotent-Replayed"] == "true"
    assert _acts(store) == ["paused"]


def test_a_request_whose_client_went_away_is_answered_when_it_is_sent_again(
    served: ServedDaemon, store: TroubledStore
) -> None:
    """Its answer was kept although nobody read it."""
    store.go_on.clear()
    headers = {"X-API-Key": "alice", "Idempotency-Key": "one"}
    with httpx.Client(base_url=served.api.base_url) as client, pytest.raises(httpx.ReadTimeout):
        client.post(PAUSE, headers=headers, timeout=0.2)
    assert store.waits.wait(60)
    store.go_on.set()
    codes = {"conflict"}
    while (again := _sent(served, "one")).status_code == 409:
        codes.add(again.json()["code"])
    assert (again.status_code, again.headers["Idempotent-Replayed"], codes) == (204, "true", {"conflict"})
    assert _acts(store) == ["paused"]


def test_a_request_after_which_nothing_was_done_is_tried_anew(served: ServedDaemon, store: TroubledStore) -> None:
    """The store could not note it, the table is not there, the service is blocked, or the body is invalid."""
    store.acts_fail = True
    assert _sent(served, "one", reason="a").status_code == 503
    store.acts_fail = False
    assert _sent(served, "one", reason="a").status_code == 204

    assert _sent(served, "two", COMPACT).status_code == 409
    served.api.post("/v1/tables/trips/resume", headers={"X-API-Key": "alice"}).raise_for_status()
    assert _sent(served, "two", COMPACT).status_code == 202

    assert _sent(served, "three", reson="a").status_code == 422
    assert _sent(served, "three", reason="a").status_code == 204
    assert _sent(served, "four", "/v1/tables/none/pause").status_code == 404


def test_a_request_whose_end_is_not_known_is_never_carried_out_again(
    served: ServedDaemon, store: TroubledStore
) -> None:
    """The run was stored, and its act could not be. Or the daemon acted, and its answer could not be stored."""
    store.acts_fail = True
    first = _sent(served, "one", COMPACT)
    store.acts_fail = False
    assert (first.status_code, first.json()["code"]) == (503, "outcome_unknown")
    assert _sent(served, "one", COMPACT).json()["code"] == "outcome_unknown"
    assert len(store.runs()) == 1


def test_a_request_that_a_dead_daemon_left_is_never_carried_out_again(
    served: ServedDaemon, store: TroubledStore
) -> None:
    """Nobody knows whether that daemon acted before it ended. Its time has not run out, but it is gone."""
    store.answers_fail = True
    assert _sent(served, "one", reason="a").status_code == 204
    store.answers_fail = False
    [(name, row)] = store._answers.items()
    store._answers[name] = replace(row, replica=ReplicaId("dead"))

    answer = _sent(served, "one", reason="a")

    assert (answer.status_code, answer.json()["code"]) == (409, "outcome_unknown")
    assert "/v1/audit" in answer.json()["remedy"]
    assert _acts(store) == ["paused"]


def test_a_claim_ends_with_its_time(make_served: Callable[..., ServedDaemon], store: TroubledStore) -> None:
    """A request that is not answered within six minutes will never be."""
    clock = ManualClock()
    served = make_served(store=store, clock=clock, identify=KEYS.get)
    served.start()
    store.answers_fail = True
    assert _sent(served, "one", reason="a").status_code == 204
    assert _sent(served, "one", reason="a").json()["code"] == "conflict"
    [(name, row)] = store._answers.items()
    store._answers[name] = replace(row, claimed_until=clock.now())
    assert _sent(served, "one", reason="a").json()["code"] == "outcome_unknown"


@pytest.mark.parametrize("keys", [[""], ["k" * 256], ["a", "b"], ["a b"], ["ü".encode()], ['""']])
def test_a_key_that_cannot_be_used_is_refused(served: ServedDaemon, store: TroubledStore, keys: list[Any]) -> None:
    """A client that relies on it must not believe that it counts."""
    headers = [("X-API-Key", "alice"), *(("Idempotency-Key", key) for key in keys)]
    answer = served.api.post(PAUSE, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
    assert _acts(store) == []


def test_a_request_without_a_key_acts_each_time(served: ServedDaemon, store: TroubledStore) -> None:
    """As before. Nothing is kept for it, and nothing for requests that only read."""
    for _ in range(2):
        served.api.post(PAUSE, headers={"X-API-Key": "alice"}).raise_for_status()
    served.api.get("/v1/tables", headers={"X-API-Key": "alice", "Idempotency-Key": "one"}).raise_for_status()
    assert _acts(store) == ["paused", "paused"]
    assert not store._answers
