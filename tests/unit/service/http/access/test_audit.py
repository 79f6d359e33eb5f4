"""The audit log over REST: who did what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from lakewarden.planners.model.errors import TemporaryError
from lakewarden.service.model.access import Act, Caller, Role
from lakewarden.service.model.rows import RewriteRow
from tests.support.store.memory_store import MemoryStore
from tests.unit.service.http.conftest import ServedDaemon

KEYS = {
    b"alice's key": Caller(name="alice", role=Role.OPERATOR, key="1"),
    b"root's key": Caller(name="root", role=Role.ADMIN, key="2"),
    b"job's key": Caller(name="job", role=Role.TRIGGER, key="3"),
}


class FullStore(MemoryStore):
    """A store that can be full."""

    full = False

    def note_act(self, act: Act) -> None:
        if self.full:
            raise TemporaryError("the disk is full")
        super().note_act(act)


@pytest.fixture
def store() -> FullStore:
    return FullStore()


@pytest.fixture
def served(start_served: Callable[..., ServedDaemon], store: FullStore) -> ServedDaemon:
    return start_served(identify=KEYS.get, store=store)


def _asked(served: ServedDaemon, who: str, method: str, path: str, body: Any = None) -> httpx.Response:
    return served.api.request(method, path, json=body, headers={"X-API-Key": f"{who}'s key"})


def _audit(served: ServedDaemon, query: str = "") -> list[dict[str, Any]]:
    answer = _asked(served, "root", "GET", f"/v1/audit{query}")
    assert answer.status_code == 200
    acts: list[dict[str, Any]] = answer.json()["items"]
    return acts


def test_each_act_is_in_the_log_with_its_caller(served: ServedDaemon) -> None:
    """What it was before, and what it is since. What only reads, or was refused, is no act."""
    run = _asked(served, "job", "POST", "/v1/tables/trips/services/clean/runs").json()
    _asked(served, "alice", "POST", "/v1/tables/trips/pause", {"reason": "a migration"})
    _asked(served, "alice", "POST", "/v1/tables/trips/resume")
    _asked(served, "alice", "POST", "/v1/pause", {"reason": "all"})
    _asked(served, "job", "DELETE", "/v1/tables/trips/barrier")  # it has no hold, so nothing is done
    _asked(served, "job", "POST", "/v1/tables/trips/resume")
    _asked(served, "alice", "POST", "/v1/tables/trips/services/clean/approval")
    _asked(served, "alice", "GET", "/v1/tables")

    told = [(one["who"], one["key"], one["kind"], one["table"], one["before"], one["after"]) for one in _audit(served)]
    assert told[::-1] == [
        ("job", "3", "run_requested", "trips", None, run["id"]),
        ("alice", "1", "paused", "trips", None, "a migration"),
        ("alice", "1", "resumed", "trips", "paused: a migration", None),
        ("alice", "1", "paused", None, None, "all"),
    ]


def test_the_log_is_read_by_page_and_by_table(served: ServedDaemon) -> None:
    """A page begins below the last number of the page before."""
    for number in range(3):
        _asked(served, "alice", "POST", "/v1/tables/trips/pause", {"reason": str(number)})
    _asked(served, "alice", "POST", "/v1/pause")

    first = _audit(served, "?limit=2")
    cursor = _asked(served, "root", "GET", "/v1/audit?limit=2").json()["next"]
    assert cursor == str(first[-1]["number"])
    rest = _audit(served, f"?after={first[-1]['number']}")
    assert [one["after"] for one in (*first, *rest)] == ["no reason given", "2", "1", "0"]
    assert [one["after"] for one in _audit(served, "?table=trips")] == ["2", "1", "0"]
    for query in ("?limit=0", "?after=x", "?after=99999999999", "?table=%00"):
        assert _asked(served, "root", "GET", f"/v1/audit{query}").status_code == 422


def test_an_act_that_cannot_be_noted_is_not_done(served: ServedDaemon, store: FullStore) -> None:
    """The row is written first, so no act is without one."""
    _asked(served, "alice", "POST", "/v1/tables/trips/pause", {"reason": "a migration"})
    store.full = True
    assert _asked(served, "alice", "POST", "/v1/tables/trips/resume").status_code == 503
    assert _asked(served, "alice", "GET", "/v1/tables/trips").json()["paused"] == "a migration"

    store.full = False
    assert _asked(served, "alice", "POST", "/v1/tables/trips/resume").status_code == 204


def test_a_withdrawal_that_cannot_be_noted_withdraws_no_rewrite(served: ServedDaemon, store: FullStore) -> None:
    """The runs that follow it would begin again, or never, without a word of who has said so."""
    rewrite = "/v1/tables/trips/services/compaction"
    assert _asked(served, "alice", "POST", f"{rewrite}/runs", {"rewrite_all": True}).status_code == 202
    asked = store.rows(RewriteRow)
    store.full = True
    assert _asked(served, "alice", "DELETE", f"{rewrite}/rewrite").status_code == 503
    assert asked
    assert store.rows(RewriteRow) == asked
