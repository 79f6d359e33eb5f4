"""A rewrite of all files, through the API."""

from __future__ import annotations

from typing import Any

import pytest

from lakewarden.service.model.run import RunState
from tests.unit.service.http.conftest import ServedDaemon

COMPACT = "/v1/tables/trips/services/compaction/runs"
REWRITE = "/v1/tables/trips/services/compaction/rewrite"
UNDER_WAY = "lakewarden_table_rewrites_of_all_files"


def test_a_rewrite_is_asked_for_shown_and_withdrawn(served: ServedDaemon) -> None:
    """The run says what it is a part of. While the request is there, explain and the metrics show it."""
    served.lake.begin_write()
    first = served.api.post(COMPACT, json={"rewrite_all": True})
    served.moments.wait()
    notes = served.api.get("/v1/tables/trips/explain").json()["services"]["compaction"]["notes"]

    assert (first.status_code, first.json()["rewrite_all"]) == (202, True)
    assert notes[0].startswith("a rewrite of all files was requested by api at ")
    assert served.metric(UNDER_WAY, table="trips") == 1
    assert served.api.delete(REWRITE).status_code == 204
    assert served.api.delete(REWRITE).status_code == 404
    assert served.metric(UNDER_WAY, table="trips") == 0


def test_a_rewrite_ends_with_a_run_that_finds_nothing(served: ServedDaemon) -> None:
    """The second run begins by itself."""
    served.api.post(COMPACT, json={"rewrite_all": True}).raise_for_status()
    first, last = served.moments.ending(), served.moments.ending()

    assert (first.state, first.outcome) == (RunState.SUCCEEDED, "completed")
    assert last.outcome == "nothing to do: the format found nothing to plan"
    assert served.metric(UNDER_WAY, table="trips") == 0
    assert served.api.delete(REWRITE).status_code == 404


@pytest.mark.parametrize(
    ("path", "body", "status", "says"),
    [
        (COMPACT, {"rewriteall": True}, 422, "there is no such field"),
        (COMPACT.replace("compaction", "clean"), {"rewrite_all": True}, 409, "of format fake cannot rewrite all files"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(
    served: ServedDaemon, path: str, body: dict[str, Any], status: int, says: str
) -> None:
    """Nothing is asked for then."""
    answer = served.api.post(path, json=body)

    assert answer.status_code == status
    assert says in answer.json()["detail"]
    assert served.api.get("/v1/runs").json()["items"] == []
