"""Past decisions over REST, and the explanation of a past moment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import TableId
from lakewarden.service.model.rows import DecisionRow
from lakewarden.service.model.run import Run, RunState
from tests.unit.service.http.conftest import ServedDaemon

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
