"""What the API says of tables."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from lakewarden.planners.model.instant import Service, Step
from tests.unit.service.http.conftest import ServedDaemon


def _table(served: ServedDaemon) -> dict[str, Any]:
    answer: dict[str, Any] = served.api.get("/v1/tables/trips").raise_for_status().json()
    return answer


def test_a_table_is_shown_with_its_decisions_and_their_reasons(served: ServedDaemon) -> None:
    """Whoever asks why nothing runs reads it where the table is."""
    table = _table(served)

    assert (table["id"], table["format"], table["path"]) == ("trips", "fake", str(served.lake.folder))
    assert (table["mode"], table["poll_seconds"], table["paused"], table["failure"]) == ("act", 3600.0, None, None)
    assert table["services"]["compaction"] == {
        "decision": {
            "decision": "NotDue",
            "reason": "3 of 1000 commits since the last one",
            "remedy": None,
            "again_at": None,
        },
        "commits_since": 3,
        "pending": 0,
        "active_run": None,
    }


def test_all_tables_are_listed_as_each_is_shown(served: ServedDaemon) -> None:
    """The list holds what the single table's page holds, but for the seconds that pass meanwhile."""
    (listed,) = served.api.get("/v1/tables").json()["items"]
    single = _table(served)

    assert listed | {"observed_seconds_ago": 0} == single | {"observed_seconds_ago": 0}


def test_a_table_that_was_not_looked_at_yet_is_shown_without_guesses(make_served: Callable[..., ServedDaemon]) -> None:
    """What comes from the table is null until it was observed."""
    table = _table(make_served())

    assert (table["observed_at"], table["kind"], table["observed_seconds_ago"], table["writers"]) == (None,) * 4
    assert table["services"]["clean"]["decision"] is None


def test_writes_in_flight_are_shown(served: ServedDaemon) -> None:
    """The writers' activity is part of a table's health."""
    begun = served.lake.begin_write()
    served.api.post("/v1/tables/trips/services/compaction/runs")
    served.moments.wait()

    assert [write["time"] for write in _table(served)["writers"]["in_flight"]] == [begun]


def test_a_writers_failure_is_shown_and_counted_against_the_run_beside_which_it_failed(served: ServedDaemon) -> None:
    """Its target is zero, so that somebody looks; one that met no run of ours is counted apart."""
    labels = {"table": "trips", "near_us": "true"}
    assert served.metric("lakewarden_writer_failures_total", **labels) == 0
    served.pool.hold(Service.COMPACTION, Step.EXECUTE)
    run = served.api.post("/v1/tables/trips/services/compaction/runs").json()["id"]
    while not served.pool.under_way:
        time.sleep(0.01)
    failed = served.lake.begin_write()
    long_ago = (datetime.now(UTC) - timedelta(seconds=30)).timestamp()
    os.utime(served.lake.folder / "heartbeats" / failed, (long_ago, long_ago))
    served.look(news=0)
    served.moments.failure()

    (failure,) = _table(served)["writers"]["failures"]

    assert (failure["instant"], failure["reason"]) == (failed, "its heartbeat ran out")
    assert failure["near_run"] == run
    assert served.metric("lakewarden_writer_failures_total", **labels) == 1
    assert served.metric("lakewarden_writer_failures_total", table="trips", near_us="false") == 0


def test_pending_instants_are_listed_by_service(served: ServedDaemon) -> None:
    """Each plan that waits stands there with its time in RFC 3339 and UTC, and how much work it asks for."""
    plan = served.lake.plan_compaction()
    served.look(news=1)

    answer = served.api.get("/v1/tables/trips/pending").json()

    (instant,) = answer["pending"]["compaction"]
    assert (answer["table"], instant["time"], instant["state"]) == ("trips", plan, "REQUESTED")
    assert instant["requested_at"].endswith("Z")
    assert datetime.fromisoformat(instant["requested_at"]) <= datetime.now(UTC)
    assert set(answer["pending"]) == {"compaction"}


def test_a_tables_trouble_is_shown_and_is_its_own(served: ServedDaemon) -> None:
    """A table that cannot be observed says why, and the API goes on."""
    shutil.rmtree(served.lake.folder)
    served.look()

    table = _table(served)

    assert table["failure"]
    assert table["services"]["clean"]["decision"]["decision"] == "Blocked"


def test_an_unknown_table_is_not_found(served: ServedDaemon) -> None:
    """Errors have one shape, with a code for programs and a sentence for people."""
    for path in ("/v1/tables/nope", "/v1/tables/nope/pending"):
        answer = served.api.get(path)

        assert answer.status_code == 404
        assert answer.json() == {
            "type": "urn:lakewarden:problem:not_found",
            "title": "There is no such thing",
            "status": 404,
            "detail": "no table 'nope' is registered",
            "instance": path,
            "code": "not_found",
        }
