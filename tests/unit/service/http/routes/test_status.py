"""What an operator wants to know every morning, over REST and on the command line."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from lakewarden.cli.runs import lines
from lakewarden.planners.model.decision import Blocked, Due, NotDue
from lakewarden.planners.model.instant import Service, Step
from lakewarden.planners.model.table import DeletionBudget, Policy, Table, TableId
from lakewarden.planners.triggers import NumCommits
from lakewarden.service.control.table_statuses import TableStatus
from lakewarden.service.http.routes.status import blocked_of
from lakewarden.service.model.reasons import CODES
from lakewarden.service.model.run import RunState
from tests.support.daemon.daemon_harness import prepare
from tests.unit.service.http.conftest import ServedDaemon

CLEAN, COMPACTION = Service.CLEAN, Service.COMPACTION


def _asked(served: ServedDaemon) -> dict[str, Any]:
    found: dict[str, Any] = served.api.get("/v1/fleet/status").raise_for_status().json()
    return found


def _status(name: str, **decisions: Any) -> TableStatus:
    policies = dict.fromkeys((CLEAN, COMPACTION), Policy(trigger=NumCommits(at_least=1)))
    table = Table(id=TableId(name), format="hudi", location=f"/lake/{name}", policies=policies)
    return TableStatus(table=table, decisions={Service(key): one for key, one in decisions.items()})


def _paused(why: str) -> Blocked:
    return Blocked(code="paused", reason=f"paused: {why}", remedy="resume it")


def test_blocks_are_grouped_by_the_code_of_their_reason() -> None:
    """The most frequent first. Names and numbers in a sentence make no group of their own."""
    found = blocked_of(
        [
            _status("a", clean=_paused("x"), compaction=_paused("y")),
            _status("b", clean=_paused("z"), compaction=NotDue(reason="3 of 10 commits")),
            _status(
                "c", clean=Due(reason="now"), compaction=Blocked(code="lock_missing", reason="no lock is configured")
            ),
        ]
    )
    assert [(one.code, one.services, one.tables) for one in found] == [("paused", 3, 2), ("lock_missing", 1, 1)]
    assert (found[0].table, found[0].reason) == ("a", "paused: x")
    assert all(one.meaning and one.cure for one in found)


def test_a_pause_is_shown_with_its_code_and_its_cure(served: ServedDaemon) -> None:
    """Each decision of the table has the code, too."""
    served.api.post("/v1/tables/trips/pause", json={"reason": "for the night"}).raise_for_status()
    served.look()
    found = _asked(served)
    [paused] = found["blocked"]
    assert (paused["code"], paused["services"], paused["tables"]) == ("paused", 2, 1)
    assert (found["tables"], found["observed"], found["paused"]) == (1, 1, 1)
    explained = served.api.get("/v1/tables/trips/explain").raise_for_status().json()
    codes = {one["decision"]["code"] for one in explained["services"].values() if one["decision"]}
    assert codes == {"paused"}
    assert codes <= set(CODES)


def test_a_deletion_that_waits_is_named(make_served: Callable[..., ServedDaemon]) -> None:
    """The number of its files, as an approval shows it. It is not counted among what is blocked."""
    served = make_served(budget=DeletionBudget(files=0))
    prepare(served.lake)
    served.start()
    served.look()
    served.api.post("/v1/tables/trips/services/clean/runs").raise_for_status()
    assert served.moments.ending().state is RunState.YIELDED
    served.moments.decision()
    found = _asked(served)
    [waiting] = found["approvals"]
    assert (waiting["table"], waiting["service"], waiting["files"]) == ("trips", "clean", 1)
    assert [one["code"] for one in found["blocked"]] == ["approval_needed"]
    assert found["ran"] == [{"service": "clean", "state": "YIELDED", "runs": 1}]
    assert {"blocked services: 0", "  trips clean: 1 file"} <= set(lines(found))


def test_the_command_prints_twenty_lines_at_most(served: ServedDaemon) -> None:
    """However many reasons and services there are. What is in quarantine is never left out."""
    found = _asked(served)
    block = {"code": "paused", "services": 2, "tables": 1, "table": "t", "cure": "Resume it."}
    held = {**block, "code": "quarantined", "table": "q"}
    numbers = ("read_files", "read_bytes", "write_files", "delete_files", "delete_bytes", "versions", "unknown")
    would = {"service": "ttl", "tables": 2, "seconds": 3.0, "core_seconds": 4.0, **dict.fromkeys(numbers, 0)}
    waiting = {"table": "t", "service": "clean", "files": 3, "asked_at": "2026-01-01T00:00:00Z"}
    foreign = {"table": "t", "service": "clean", "instant": "1", "at": "2026-01-01T00:00:00Z"}
    many = {
        **found,
        "blocked": [*[block] * 25, held],
        "would_run": [would] * 12,
        "approvals": [waiting] * 20,
        "foreign_services": [foreign] * 20,
    }
    said = list(lines(many))
    assert len(said) <= 20
    assert any("21 other reasons" in one for one in said)
    assert "in quarantine: 2 services on 1 table, first q" in said
    assert any("and 18 runs of ttl, ttl" in one for one in said)
    assert any("other programs serve 20 tables, first t: clean 1" in one for one in said)
    assert said[0].startswith("1 table, 0 cannot be observed")


# What the API says of tables.


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
            "code": "trigger_not_reached",
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

    assert [write["instant"] for write in _table(served)["writers"]["in_flight"]] == [begun]


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


def test_a_tables_trouble_is_shown_and_is_its_own(served: ServedDaemon) -> None:
    """A table that cannot be observed says why, and the API goes on."""
    shutil.rmtree(served.lake.folder)
    served.look()

    table = _table(served)

    assert table["failure"]
    assert table["services"]["clean"]["decision"]["decision"] == "Blocked"
