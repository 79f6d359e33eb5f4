"""Adoptions over REST and the command line: tables are taken over, and given back."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from lakewarden.cli import main
from lakewarden.cli.codes import Code
from lakewarden.planners.model.table import ActWhen
from lakewarden.service.rules.adoption import AdoptionTerms
from tests.support.waiting import HANGS
from tests.unit.service.http.conftest import ServedDaemon

AT_ONCE = AdoptionTerms(plan_for=AdoptionTerms().plan_for * 0, between_waves=AdoptionTerms().between_waves * 0)


@pytest.fixture
def adoptable(make_served: Callable[..., ServedDaemon]) -> ServedDaemon:
    """Return a daemon with a table that waits to be adopted."""
    made = make_served(act_when=ActWhen.ADOPTED, adoption=AT_ONCE)
    made.lake.write()
    made.start()
    made.look()
    return made


def until(read: Callable[[], Any], wanted: Any) -> None:
    """Wait until something is as wanted. The daemon goes on by itself every two seconds."""
    end = time.monotonic() + HANGS
    while (found := read()) != wanted:
        assert time.monotonic() < end, found
        time.sleep(0.05)


def _phase(served: ServedDaemon) -> list[str]:
    return [one["phase"] for one in served.api.get("/v1/adoptions").json()["items"]]


def _mode(served: ServedDaemon) -> str:
    return str(served.api.get("/v1/tables/trips").json()["mode"])


def test_a_table_is_taken_over_and_given_back(adoptable: ServedDaemon) -> None:
    """Its mode follows its phase, and never goes beyond the configuration. Each act is in the audit log."""
    assert _mode(adoptable) == "plan"
    answer = adoptable.api.post("/v1/adoptions", json={"tables": "t*"})
    assert answer.status_code == 200, answer.text
    assert [(one["table"], one["wave"]) for one in answer.json()["items"]] == [("trips", 1)]
    until(lambda: _phase(adoptable), ["acting"])
    until(lambda: _mode(adoptable), "act")
    assert adoptable.api.get("/v1/tables/trips/policies").json()["settings"]["mode"]["source"] != "adoption"

    given = adoptable.api.delete("/v1/adoptions", params={"tables": "trips"}).json()
    assert given == {"tables": ["trips"], "runs": []}
    until(lambda: _mode(adoptable), "observe")
    assert adoptable.api.get("/v1/tables/trips/policies").json()["settings"]["mode"]["source"] == "adoption"
    assert [one["kind"] for one in adoptable.api.get("/v1/audit").json()["items"]] == ["given_back", "adopted"]


def test_a_table_that_is_taken_over_already_is_refused_by_name(adoptable: ServedDaemon) -> None:
    """So is a pattern that means no table."""
    assert adoptable.api.post("/v1/adoptions", json={"tables": "trips"}).status_code == 200
    again = adoptable.api.post("/v1/adoptions", json={"tables": "trips"})
    assert again.status_code == 409
    assert "trips: its adoption is" in again.json()["detail"]
    assert adoptable.api.post("/v1/adoptions", json={"tables": "none"}).status_code == 409
    assert adoptable.api.delete("/v1/adoptions", params={"tables": "none"}).status_code == 404


def test_an_adoption_survives_a_restart(adoptable: ServedDaemon, make_served: Callable[..., ServedDaemon]) -> None:
    """Another daemon on the store has the table in the mode that it was in."""
    adoptable.api.post("/v1/adoptions", json={"tables": "trips"})
    until(lambda: _mode(adoptable), "act")
    again = make_served(act_when=ActWhen.ADOPTED, adoption=AT_ONCE, beside=adoptable)
    assert again.api.get("/v1/tables/trips").json()["mode"] == "act"


def test_the_command_adopts_shows_and_undoes(adoptable: ServedDaemon, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a table it lists what there is."""
    url = ["--url", str(adoptable.api.base_url)]
    assert main(["adopt", *url]) == Code.DONE
    assert main(["adopt", "trips", "--waves", "5,50", *url]) == Code.DONE
    assert "the daemon goes on by itself" in capsys.readouterr().out
    assert main(["adopt", *url]) == Code.DONE
    assert "trips" in capsys.readouterr().out
    assert main(["adopt", "trips", "--undo", *url]) == Code.DONE
    assert "1 tables are given back, and only observed from now on" in capsys.readouterr().out
    assert main(["adopt", "trips", "--waves", "some", *url]) == Code.USAGE


@pytest.mark.parametrize("waves", [[25, 5], [5, 5]])
def test_waves_that_do_not_rise_are_refused(adoptable: ServedDaemon, waves: list[int]) -> None:
    """Nothing is sorted silently, and no table is taken over."""
    refused = adoptable.api.post("/v1/adoptions", json={"tables": "trips", "waves": waves})
    assert refused.status_code == 422
    assert "higher percentage than the one before" in refused.text
    assert adoptable.api.get("/v1/adoptions").json()["items"] == []


def test_what_has_not_begun_is_cancelled_when_a_table_is_given_back(adoptable: ServedDaemon) -> None:
    """The runs of a large fleet wait in the queue for hours. None of them begins on a table that was given back."""
    adoptable.api.post("/v1/adoptions", json={"tables": "trips"})
    until(lambda: _mode(adoptable), "act")
    adoptable.pool.close()  # no slot is left, so that a run stays in the queue
    asked = adoptable.api.post("/v1/tables/trips/services/clean/runs")
    assert asked.status_code < 300, asked.text
    queued = adoptable.api.get("/v1/runs", params={"state": "QUEUED"}).json()["items"]
    assert queued

    given = adoptable.api.delete("/v1/adoptions", params={"tables": "trips"}).json()
    assert {one["becomes"] for one in given["runs"]} == {"it has not begun, and is cancelled"}
    until(lambda: adoptable.api.get("/v1/runs", params={"state": "QUEUED"}).json()["items"], [])
    ended = {one["id"]: one["state"] for one in adoptable.api.get("/v1/runs").json()["items"]}
    assert {ended[one["id"]] for one in queued} == {"CANCELLED"}
    until(lambda: _mode(adoptable), "observe")
