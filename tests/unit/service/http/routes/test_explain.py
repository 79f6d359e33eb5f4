"""What the API says of why services run or do not, and of what a table's writers must set."""

from __future__ import annotations

from tests.unit.service.http.conftest import ServedDaemon


def test_a_table_is_explained_by_what_was_really_decided(served: ServedDaemon) -> None:
    """The reason, its time and the numbers behind it are those of the last decision in the store."""
    answer = served.api.get("/v1/tables/trips/explain").raise_for_status().json()

    compaction = answer["services"]["compaction"]
    assert (answer["table"], answer["mode"], answer["failure"]) == ("trips", "act", None)
    assert compaction["due_when"] == "1000 commits since the last one"
    assert (compaction["decision"]["decision"], compaction["decision"]["reason"]) == (
        "NotDue",
        "3 of 1000 commits since the last one",
    )
    assert compaction["decision"]["decided_at"].endswith("Z")
    assert compaction["backlog"]["commits"] == 3
    assert compaction["last_run"] is None


def test_the_last_run_and_how_it_ended_are_part_of_the_explanation(served: ServedDaemon) -> None:
    """A run that has ended is found again with its outcome and its figures. Writers read how long it held the lock."""
    served.api.post("/v1/tables/trips/services/compaction/runs").raise_for_status()
    served.moments.ending()

    answer = served.api.get("/v1/tables/trips/explain").json()

    last = answer["services"]["compaction"]["last_run"]
    assert (last["state"], last["outcome"]) == ("SUCCEEDED", "completed")
    assert last["figures"]["commit_seconds"] >= 0
    assert served.api.get("/v1/tables/trips/writer-options").json()["worst_lock_hold_seconds"] >= 0


def test_writers_are_told_where_to_announce_their_commits(served: ServedDaemon) -> None:
    """The options are the format's, with the address of this API and a reason for each."""
    answer = served.api.get("/v1/tables/trips/writer-options", params={"engine": "flink"}).raise_for_status().json()

    assert (answer["table"], answer["engine"], answer["worst_lock_hold_seconds"]) == ("trips", "flink", None)
    assert answer["options"][0] == {
        "key": "fake.hook",
        "value": "http://127.0.0.1:8080/v1/hooks/fake",
        "why": "Lakewarden hears of each commit",
        "shared": False,
        "optional": False,
    }


def test_an_unknown_engine_is_refused(served: ServedDaemon) -> None:
    """In the one shape of every error."""
    answer = served.api.get("/v1/tables/trips/writer-options?engine=presto")
    assert (answer.status_code, bool(answer.json()["detail"])) == (422, True)
