"""Approvals and the clean barrier over HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from lakewarden.cli import main
from lakewarden.cli.exit_codes import Code
from lakewarden.planners.model.instant import Service, Step
from lakewarden.planners.model.table import DeletionBudget
from lakewarden.service.model.access import Caller, Role
from lakewarden.service.model.run import RunState
from tests.support.daemon.daemon_harness import prepare
from tests.unit.service.http.conftest import ServedDaemon

APPROVAL = "/v1/tables/trips/services/clean/approval"
BARRIER = "/v1/tables/trips/barrier"


@pytest.fixture
def stopped(make_served: Callable[..., ServedDaemon]) -> ServedDaemon:
    """Return a running daemon whose clean was stopped by the table's budget."""
    served = make_served(budget=DeletionBudget(files=0))
    prepare(served.lake)
    served.start()
    served.look()
    served.api.post("/v1/tables/trips/services/clean/runs").raise_for_status()
    assert served.moments.ending().state is RunState.YIELDED
    served.moments.decision()
    return served


def test_what_waits_for_approval_is_shown_with_where_to_approve_it(stopped: ServedDaemon) -> None:
    """In the table's decision, in the answer to who asks for a run, and in a metric."""
    decision = stopped.api.get("/v1/tables/trips").json()["services"]["clean"]["decision"]
    asked = stopped.api.post("/v1/tables/trips/services/clean/runs")

    assert (decision["decision"], decision["reason"]) == ("Blocked", "would delete 1 file, more than the budget of 0")
    assert decision["remedy"] == "approve it, which cannot be undone: `lakewarden approvals approve trips clean`"
    assert (asked.status_code, asked.json()["remedy"]) == (409, decision["remedy"])
    assert stopped.metric("lakewarden_table_approvals_waiting", table="trips") == 1


def test_an_approval_lets_the_clean_run_once(stopped: ServedDaemon) -> None:
    """204, and the pending plan is completed; there is nothing left to approve then."""
    assert stopped.api.post(APPROVAL, json={"by": "ada"}).status_code == 204
    assert stopped.moments.ending().state is RunState.SUCCEEDED

    again = stopped.api.post(APPROVAL)

    assert (again.status_code, again.json()["code"]) == (409, "blocked")
    assert stopped.lake.file_versions == 1
    assert stopped.metric("lakewarden_table_approvals_waiting", table="trips") == 0


def test_the_deletions_of_many_tables_are_approved_by_a_pattern(
    stopped: ServedDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of more files than are said are left out, and so are other tables."""
    approve = ["approvals", "approve", "--url", str(stopped.api.base_url)]
    assert main([*approve, "t*", "clean", "--most-files", "0"]) == Code.DONE
    assert "0 of 1 waiting deletions are approved" in capsys.readouterr().out
    assert main([*approve, "other*", "clean"]) == Code.DONE
    assert "0 of 0 waiting deletions" in capsys.readouterr().out
    assert stopped.api.get("/v1/approvals").json()["items"][0]["approved_by"] is None
    assert main([*approve, "t*", "clean", "--most-files", "1"]) == Code.DONE
    assert "the deletion of 1 files by clean on trips is approved" in capsys.readouterr().out
    assert stopped.moments.ending().state is RunState.SUCCEEDED


def test_an_approval_is_in_the_audit_log_with_its_person_and_the_deletion(stopped: ServedDaemon) -> None:
    """What was shown, and the name that was given. A second approval changes nothing, and is no act."""
    for _ in range(2):
        stopped.api.post(APPROVAL, json={"by": "ada"})

    act, asked = stopped.api.get("/v1/audit").json()["items"]
    assert (act["who"], act["kind"], act["table"], act["service"]) == ("ada", "deletion_approved", "trips", "clean")
    assert act["before"].startswith("waits for an approval: 1 file for good (plan ")
    assert act["after"] == "approved"
    assert asked["kind"] == "run_requested"


def test_the_person_who_requested_a_deletion_does_not_approve_it(make_served: Callable[..., ServedDaemon]) -> None:
    """Two persons decide on it, also if each of them may do both."""
    people = {name.encode(): Caller(name=name, role=Role.OPERATOR, key=name) for name in ("ada", "bob")}
    served = make_served(budget=DeletionBudget(files=0), identify=people.get)
    prepare(served.lake)
    served.start()
    served.look()
    ada, bob = {"X-API-Key": "ada"}, {"X-API-Key": "bob"}
    served.api.post("/v1/tables/trips/services/clean/runs", headers=ada).raise_for_status()
    assert served.moments.ending().state is RunState.YIELDED

    refused = served.api.post(APPROVAL, headers=ada, json={"by": "bob"})
    assert refused.status_code == 403
    assert "ada requested run" in refused.json()["detail"]
    assert served.lake.file_versions > 1

    assert served.api.post(APPROVAL, headers=bob, json={"by": "ada"}).status_code == 204
    assert served.moments.ending().state is RunState.SUCCEEDED
    [approval] = served.store.acts(limit=1)
    assert (approval.who, approval.key) == ("bob", "bob")


def test_deletions_that_wait_are_listed(stopped: ServedDaemon) -> None:
    """With the numbers that an approval would allow. An approved one says who approved it."""
    [shown] = stopped.api.get("/v1/approvals?waiting=true").json()["items"]
    assert (shown["table"], shown["service"], shown["files"], shown["approved_by"]) == ("trips", "clean", 1, None)
    assert stopped.api.get("/v1/approvals?waiting=false").json() == {"items": [], "next": None}
    assert stopped.api.get("/v1/approvals?after=trips/clean").json()["items"] == []


def test_an_approval_where_nothing_waits_is_refused(served: ServedDaemon) -> None:
    """409 for a service of the table, 404 for one that it has no policy for."""
    assert served.api.post(APPROVAL).status_code == 409
    assert served.api.post("/v1/tables/trips/services/archive/approval").status_code == 404
    assert served.api.post(APPROVAL, json={"who": "ada"}).status_code == 422


def test_a_barrier_answers_how_long_it_waited_and_until_when_it_holds(served: ServedDaemon) -> None:
    """At once where no clean is executing."""
    before = datetime.now(UTC)

    answer = served.api.post(BARRIER, json={"hold": "20s", "wait": "1s"})

    body = answer.raise_for_status().json()
    assert (body["table"], answer.status_code) == ("trips", 200)
    assert body["waited_seconds"] >= 0
    held = datetime.fromisoformat(body["held_until"]) - before
    assert timedelta(seconds=20) <= held <= timedelta(seconds=20) + (datetime.now(UTC) - before)


def test_a_barrier_that_cannot_be_had_in_time_says_so_and_the_api_goes_on(
    make_served: Callable[..., ServedDaemon],
) -> None:
    """503 with a time to try again; meanwhile others are answered: nobody waits on the loop for it."""
    served = make_served()
    prepare(served.lake)
    served.pool.hold(Service.CLEAN, Step.COMMIT)
    served.start()
    served.look()
    served.api.post("/v1/tables/trips/services/clean/runs").raise_for_status()
    while not served.pool.under_way:
        time.sleep(0.01)

    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(served.api.post, BARRIER, json={"wait": "1500ms"})
        for _ in range(5):
            assert served.api.get("/v1/tables").status_code == 200
        assert not waiting.done()
        refused = waiting.result()
    assert refused.status_code == 503
    assert "is COMMITTING: not ended within" in refused.json()["detail"]
    assert int(refused.headers["Retry-After"]) > 0


@pytest.mark.parametrize(
    "body", [{"hold": "61s"}, {"wait": "301s"}, {"hold": 10}, {"hold": "-1s"}, {"holds": "1s"}, {"hold": "ten"}]
)
def test_a_barrier_has_bounds(served: ServedDaemon, body: dict[str, object]) -> None:
    """Nobody stops a table's cleans for long, by mistake or otherwise."""
    assert served.api.post(BARRIER, json=body).status_code == 422
