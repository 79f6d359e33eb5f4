"""The timeline of a table over REST."""

from __future__ import annotations

from datetime import UTC, datetime

from tests.unit.service.http.conftest import ServedDaemon

TIMELINE = "/v1/tables/trips/timeline"


def test_the_pages_together_have_each_instant_once_the_newest_first(served: ServedDaemon) -> None:
    """A client that follows the cursor reads the whole timeline."""
    seen, after = [], ""
    while True:
        page = served.api.get(f"{TIMELINE}?limit=1{after}").raise_for_status().json()
        seen += page["items"]
        if page["next"] is None:
            break
        after = f"&after={page['next']}"

    assert [one["time"] for one in seen] == sorted((one["time"] for one in seen), reverse=True)
    assert len(seen) == len({one["time"] for one in seen}) == 3
    assert {one["stands_for"] for one in seen} == {"write"}


def test_what_waits_is_listed_alone(served: ServedDaemon) -> None:
    """A pending plan has its service, its state, its time in RFC 3339 and UTC, and no time of completion."""
    plan = served.lake.plan_compaction()
    served.look(news=1)

    [waiting] = served.api.get(f"{TIMELINE}?pending=true").json()["items"]

    assert (waiting["time"], waiting["state"], waiting["completed_at"]) == (plan, "REQUESTED", None)
    assert waiting["stands_for"] == "compaction"
    assert waiting["requested_at"].endswith("Z")
    assert datetime.fromisoformat(waiting["requested_at"]) <= datetime.now(UTC)
    assert served.api.get(f"{TIMELINE}?action=none").json() == {"items": [], "next": None}
    assert served.api.get(f"{TIMELINE}?after=x").status_code == 422


def test_what_is_ours_is_listed_with_its_run(served: ServedDaemon) -> None:
    """Writes of others are left out."""
    run = served.api.post("/v1/tables/trips/services/compaction/runs").json()["id"]
    served.moments.ending()
    served.look(news=1)

    assert [one["run"] for one in served.api.get(f"{TIMELINE}?ours=true").json()["items"]] == [run]
