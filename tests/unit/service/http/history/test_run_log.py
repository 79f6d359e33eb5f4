"""The log of a run over REST, here and from another replica."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from lakewarden.executors.pool.listening import LogLine, RunLogs
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import TableId
from lakewarden.service.model.rows import DecisionRow
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.store.sql import schema
from tests.support.store.memory_store import MemoryStore
from tests.unit.service.http.conftest import ServedDaemon

# Past decisions over REST, and the explanation of a past moment.

NOON = datetime(2025, 1, 1, 12, tzinfo=UTC)
TRIPS = TableId("trips")
DECISIONS, EXPLAIN = "/v1/tables/trips/decisions", "/v1/tables/trips/explain"


def _decide(served: ServedDaemon, decision: str, *, hours: int, service: Service = Service.COMPACTION) -> None:
    row = DecisionRow(
        table=TRIPS,
        service=service,
        decision=decision,
        reason=f"reason {hours}",
        remedy="resume it" if decision == "Blocked" else None,
        again_at=None,
        decided_at=NOON + timedelta(hours=hours),
    )
    served.store.decided([], changes=[row])


def test_the_pages_together_have_each_decision_once_the_newest_first(served: ServedDaemon) -> None:
    """Each with its end, also across pages."""
    for hours in range(5):
        _decide(served, "Due" if hours % 2 else "NotDue", hours=hours)
    path: str | None = f"{DECISIONS}?service=compaction&limit=2"
    seen = []
    while path is not None:
        page = served.api.get(path).raise_for_status()
        seen += page.json()["items"]
        path = page.links["next"]["url"] if "next" in page.links else None
    stored = [one for one in seen if one["reason"].startswith("reason")]
    assert [one["reason"] for one in stored] == [f"reason {hours}" for hours in (4, 3, 2, 1, 0)]
    assert [one["until"] for one in stored[1:]] == [one["since"] for one in stored[:-1]]
    assert {one["service"] for one in seen} == {"compaction"}


def test_the_decisions_of_the_daemon_itself_are_in_the_history(served: ServedDaemon) -> None:
    """From its first observation on. They still hold."""
    found = served.api.get(DECISIONS).raise_for_status().json()["items"]
    assert {(one["service"], one["until"]) for one in found} == {("compaction", None), ("clean", None)}


def test_a_past_moment_is_explained_as_it_was(served: ServedDaemon) -> None:
    """What held, until when, what ran, and what had piled up."""
    _decide(served, "NotDue", hours=0)
    _decide(served, "Blocked", hours=2)
    run = Run(
        id=RunId("run-1"),
        table=TRIPS,
        identity="elsewhere|trips",
        service=Service.CLEAN,
        state=RunState.QUEUED,
        reason="asked for",
        requested_by="alice",
        created_at=NOON,
    )
    served.store.request(run)
    served.store.end(run.id, epoch=0, state=RunState.CANCELLED, outcome="no need", at=NOON + timedelta(hours=3))

    past = served.api.get(EXPLAIN, params={"at": "2025-01-01T14:30:00Z"}).raise_for_status().json()

    assert (past["table"], past["at"]) == ("trips", "2025-01-01T14:30:00Z")
    compaction, clean = past["services"]["compaction"], past["services"]["clean"]
    assert (compaction["decision"]["decision"], compaction["decision"]["remedy"]) == ("Blocked", "resume it")
    assert compaction["decision"]["since"] == "2025-01-01T14:00:00Z"
    assert clean["decision"] is None
    assert [(one["id"], one["outcome"]) for one in clean["runs"]] == [("run-1", "no need")]
    before = served.api.get(EXPLAIN, params={"at": "2025-01-01T11:00:00Z"}).raise_for_status().json()
    assert before["services"] == {}


def test_a_moment_to_come_cannot_be_explained(served: ServedDaemon) -> None:
    """Neither can one without a zone. The present is explained without `at`."""
    ahead = served.api.get(EXPLAIN, params={"at": "2999-01-01T00:00:00Z"})
    assert (ahead.status_code, "is not past" in ahead.json()["detail"]) == (409, True)
    for moment in ("2025-01-01T00:00:00", "yesterday", "0.5"):
        answer = served.api.get(EXPLAIN, params={"at": moment})
        assert answer.status_code == 422
        assert "query.at" in answer.json()["detail"]
    assert served.api.get(EXPLAIN, params={"at": "0001-01-01T00:00:00Z"}).json()["services"] == {}
    assert "policies" not in served.api.get(EXPLAIN).json()
    assert served.api.get(EXPLAIN).json()["mode"] == "act"


@pytest.fixture
def served(start_served: Callable[..., ServedDaemon], tmp_path: Path) -> ServedDaemon:
    """Return a running daemon with a folder for the logs of runs."""
    return start_served(run_logs=RunLogs(tmp_path / "logs", each=16384, total=2**20))


def _ended_run(served: ServedDaemon) -> RunId:
    run = served.api.post("/v1/tables/trips/services/compaction/runs").raise_for_status().json()["id"]
    served.moments.ending()
    return RunId(run)


def _logs(served: ServedDaemon) -> RunLogs:
    assert served.run_logs is not None
    return served.run_logs


def test_the_lines_are_read_by_page_as_json_and_as_text(served: ServedDaemon) -> None:
    """As the client accepts. The next page is in the header, too."""
    run = _ended_run(served)
    lines = [
        LogLine(at=f"12:00:0{n}", level="warn", source="jvm", message=f"line {n}", fields={"a": "b"}) for n in (1, 2, 3)
    ]
    _logs(served).add(run, lines)
    path = f"/v1/runs/{run}/log"

    first = served.api.get(path, params={"limit": 2}).raise_for_status()
    assert [one["message"] for one in first.json()["items"]] == ["line 1", "line 2"]
    rest = served.api.get(first.links["next"]["url"]).raise_for_status().json()
    assert ([one["number"] for one in rest["items"]], rest["next"]) == ([3], None)

    text = served.api.get(path, headers={"accept": "text/plain"})
    assert text.headers["content-type"].startswith("text/plain")
    assert text.text.splitlines()[0] == '12:00:01 WARN jvm: line 1 a="b"'
    assert served.api.get(path, headers={"accept": "text/html,*/*"}).text == text.text


def test_lines_that_were_deleted_are_told(served: ServedDaemon) -> None:
    """A reader knows that the middle of a long log is missing."""
    run = _ended_run(served)
    for number in range(1000):
        _logs(served).add(run, [LogLine(message=f"line {number}")])
    text = served.api.get(f"/v1/runs/{run}/log", headers={"accept": "text/plain"}).text
    assert "lines were deleted, because the log was too long" in text
    assert text.splitlines()[-1].endswith("line 999")


def test_a_run_without_a_log_is_told_apart_from_no_run(served: ServedDaemon) -> None:
    """Its log may be deleted, or on the disk of a replica that has ended."""
    run = _ended_run(served)
    deleted = served.api.get(f"/v1/runs/{run}/log")
    assert deleted.status_code == 404
    assert "is deleted" in deleted.json()["detail"]
    assert isinstance(served.store, MemoryStore)
    with served.store._write() as connection:
        connection.execute(sa.update(schema.runs).where(schema.runs.c.id == run).values(owner="gone-1"))
    gone = served.api.get(f"/v1/runs/{run}/log")
    assert gone.status_code == 404
    assert "replica gone-1 carried it out" in gone.json()["detail"]
    assert "has ended" in gone.json()["detail"]
    assert "no run" in served.api.get("/v1/runs/nope/log").json()["detail"]


def test_another_replica_passes_the_request_on_to_the_one_that_has_the_log(
    make_served: Callable[..., ServedDaemon], served: ServedDaemon
) -> None:
    """Whichever replica is asked. Once the one with the log cannot be reached, the answer says so."""
    run = _ended_run(served)
    _logs(served).add(run, [LogLine(message="on the disk of the owner")])
    other = make_served(beside=served)
    other.start()
    path = f"/v1/runs/{run}/log"
    found = other.api.get(path).raise_for_status().json()
    assert [one["message"] for one in found["items"]] == ["on the disk of the owner"]
    served.stop()
    away = other.api.get(path)
    assert away.status_code in (404, 503)
    assert "replica" in away.json()["detail"]


def test_the_page_of_a_run_shows_its_last_lines(served: ServedDaemon) -> None:
    """As text, whatever a line says, with the way to the whole log."""
    run = _ended_run(served)
    _logs(served).add(run, [LogLine(message=f"<b>{n}</b>") for n in range(229)])
    _logs(served).add(run, [LogLine(level="error", source="jvm", message="<b>the end</b>")])

    text = served.api.get(f"/runs/{run}").raise_for_status().text

    assert '<span class="error">ERROR jvm: &lt;b&gt;the end&lt;/b&gt;</span>' in text
    assert "&lt;b&gt;30&lt;/b&gt;" in text
    assert "&lt;b&gt;29&lt;/b&gt;" not in text
    assert "30 lines were written before these" in text
    assert f'<a href="/v1/runs/{run}/log">' in text


def test_the_page_of_a_run_says_that_its_log_is_not_here(served: ServedDaemon) -> None:
    """A link leads to the replica that has it, through the same address."""
    run = _ended_run(served)

    assert "is on the replica that executed the run" in served.api.get(f"/runs/{run}").raise_for_status().text
