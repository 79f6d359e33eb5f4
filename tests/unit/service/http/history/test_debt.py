"""Curves of debt over REST."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import TableId
from lakewarden.service.model.history import Debt, DebtPoint, grain_of
from tests.unit.service.http.conftest import ServedDaemon

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
TRIPS = TableId("trips")
FLEET, TABLE = "/v1/fleet/debt", "/v1/tables/trips/debt"


def _keep(served: ServedDaemon, *, minutes: int) -> None:
    for table in (TRIPS, None):
        moments = [FIRST + timedelta(minutes=minute) for minute in range(minutes)]
        served.store.keep_debt(
            [
                DebtPoint(
                    at=at,
                    grain=grain_of(at) or 1,
                    table=table,
                    services={
                        Service.CLEAN: Debt(pending=1, commits=number, oldest=FIRST),
                        Service.COMPACTION: Debt(bytes=10),
                    },
                )
                for number, at in enumerate(moments)
            ]
        )


def _asked(served: ServedDaemon, path: str, **query: str) -> dict[str, Any]:
    found: dict[str, Any] = served.api.get(path, params=query).raise_for_status().json()
    return found


def test_few_points_are_all_shown_and_many_are_thinned(served: ServedDaemon) -> None:
    """No answer has more than a thousand points of a curve. A daemon that is new has a curve after two minutes."""
    _keep(served, minutes=3)
    assert len(_asked(served, FLEET, until="2026-01-01T03:00:00Z")["series"][0]["points"]) == 3
    _keep(served, minutes=1201)
    for path in (FLEET, TABLE):
        short = _asked(served, path, since="2026-01-01T00:00:00Z", until="2026-01-01T03:00:00Z")
        assert (short["step_seconds"], len(short["series"][0]["points"])) == (60, 181)
        day = _asked(served, path, since="2026-01-01T00:00:00Z", until="2026-01-02T00:00:00Z")
        assert (day["step_seconds"], len(day["series"][0]["points"])) == (300, 241)
        decade = _asked(served, path, since="2016-01-01T00:00:00Z", until="2026-01-02T00:00:00Z")
        assert (decade["step_seconds"], len(decade["series"][0]["points"])) == (86400, 1)
        assert _asked(served, path, until="2026-01-01T03:00:00Z")["since"] == "2025-12-31T03:00:00Z"


def test_a_point_has_the_sum_of_the_services_or_each_of_them(served: ServedDaemon) -> None:
    """With the age of the oldest pending plan at that moment."""
    _keep(served, minutes=11)
    asked = {"since": "2026-01-01T00:10:00Z", "until": "2026-01-01T00:10:00Z"}
    [whole] = _asked(served, TABLE, **asked)["series"]
    assert whole == {
        "service": None,
        "points": [
            {
                "at": "2026-01-01T00:10:00Z",
                "tables": 1,
                "pending": 1,
                "commits": 10,
                "files": 0,
                "bytes": 10,
                "oldest_pending_at": "2026-01-01T00:00:00Z",
                "oldest_pending_seconds": 600.0,
            }
        ],
    }
    clean, compaction = _asked(served, TABLE, by="service", **asked)["series"]
    assert (clean["service"], clean["points"][0]["commits"], clean["points"][0]["bytes"]) == ("clean", 10, 0)
    assert (compaction["service"], compaction["points"][0]["oldest_pending_at"]) == ("compaction", None)


def test_a_moment_that_is_none_is_refused_and_a_span_without_a_moment_is_empty(served: ServedDaemon) -> None:
    """A moment needs its zone, and is no number. Any other span has an answer, also at the ends of the calendar."""
    _keep(served, minutes=3)
    for query in (
        {"since": "2026-01-02T00:00:00"},
        {"by": "x"},
        {"until": "0.5"},
        {"since": "9999-12-31T23:59:59-01:00"},
    ):
        answer = served.api.get(FLEET, params=query)
        assert answer.status_code == 422
        assert "query." in answer.json()["detail"]
    after = {"since": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"}
    for query in (after, {"until": "0001-01-01T00:00:00Z"}, {"since": "9999-12-31T23:59:59Z"}):
        assert [one["points"] for one in _asked(served, FLEET, **query)["series"]] == [[]]
    assert served.api.get("/v1/tables/nope/debt").status_code == 404
