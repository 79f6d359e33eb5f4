"""Probes and metrics on the management port."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.errors import PermanentError
from lakewarden.service.http.management import ALIVE_WITHIN, build_management
from lakewarden.service.http.server import HttpServer
from tests.unit.http.conftest import House


def test_a_daemon_whose_control_thread_turns_is_alive(house: House) -> None:
    """Liveness is asked of the control thread itself."""
    assert house.management.get("/livez").status_code == 200


def test_a_control_thread_that_is_stuck_fails_the_probe(a_house: Callable[..., House]) -> None:
    """The process is to be started again, and not before the bound."""
    clock = ManualClock()
    house = a_house(clock=clock)

    clock.advance(ALIVE_WITHIN - timedelta(seconds=1))
    assert house.management.get("/livez").status_code == 200

    clock.advance(timedelta(seconds=1))
    assert house.management.get("/livez").status_code == 503


def test_a_daemon_with_workers_is_ready(house: House) -> None:
    """Nothing is missing."""
    answer = house.management.get("/readyz")

    assert (answer.status_code, answer.json()) == (200, {"ready": True, "missing": []})


def test_a_daemon_without_workers_says_what_is_missing(a_house: Callable[..., House]) -> None:
    """Readiness names the profile whose workers are not up."""
    house = a_house(slots=0)
    house.start()

    answer = house.management.get("/readyz")

    assert (answer.status_code, answer.json()["ready"]) == (503, False)
    assert answer.json()["missing"] == ["no session worker of spark profile default is up"]


def test_every_counter_is_there_before_its_first_event(a_house: Callable[..., House]) -> None:
    """A rate over a series that appears with its first event would miss that event."""
    house = a_house()

    for service in ("compaction", "clean"):
        for outcome in ("succeeded", "failed", "cancelled"):
            assert house.metric("lakewarden_runs_total", service=service, outcome=outcome) == 0
        assert house.metric("lakewarden_run_duration_seconds_count", service=service) == 0
    for result in ("accepted", "unknown_table", "malformed", "too_large"):
        assert house.metric("lakewarden_hooks_total", sender="hudi", result=result) == 0


def test_a_tables_health_is_read_at_each_scrape(house: House) -> None:
    """Pending instants, the oldest one's time, the age of the last look: as they are now."""
    where = {"table": "trips", "service": "compaction"}
    house.look(news=0)
    assert house.metric("lakewarden_table_service_blocked", **where) == 0
    house.lake.plan_compaction()
    house.look(news=1)

    assert house.metric("lakewarden_table_pending_instants", **where) == 1
    assert house.metric("lakewarden_table_first_pending_timestamp_seconds", **where)
    assert house.metric("lakewarden_table_commits_since", **where) == 3
    assert house.metric("lakewarden_table_pending_instants", table="trips", service="clean") == 0
    assert house.metric("lakewarden_table_poll_age_seconds", table="trips") is not None
    assert house.metric("lakewarden_table_service_blocked", **where) == 1  # it is left to the writer that planned it
    assert house.metric("lakewarden_pool_slots", spark="default", state="free") == 2


def test_a_run_is_counted_and_measured(house: House) -> None:
    """One run is one ending, one duration and three permits."""
    house.api.post("/v1/tables/trips/services/compaction/runs")
    house.moments.ending()

    assert house.metric("lakewarden_runs_total", service="compaction", outcome="succeeded") == 1
    assert house.metric("lakewarden_run_duration_seconds_count", service="compaction") == 1
    for step in ("plan", "execute", "commit"):
        assert house.metric("lakewarden_permit_wait_seconds_count", service="compaction", step=step) == 1


def test_metrics_are_scraped_as_prometheus_reads_them(house: House) -> None:
    """The text format, with a help line and a type for each."""
    answer = house.management.get("/metrics")

    assert answer.headers["content-type"].startswith("text/plain")
    assert "# TYPE lakewarden_runs_total counter" in answer.text
    assert 'lakewarden_table_writes_in_flight{table="trips"} 0.0' in answer.text
    assert 'lakewarden_build_info{version="' in answer.text


def test_the_management_port_is_no_way_into_the_api(house: House) -> None:
    """Whoever may probe may not trigger."""
    assert house.management.get("/v1/tables").status_code == 404


def test_a_port_that_is_taken_is_named_at_start(house: House) -> None:
    """The message names the key to change."""
    app = build_management(house.room.status, house.metrics.registry)

    with pytest.raises(PermanentError, match=r"set management\.port"):
        HttpServer(app, name="management", host="127.0.0.1", port=house.api.base_url.port or 0)
