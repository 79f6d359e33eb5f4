"""Probes and metrics on the management port."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.errors import PermanentError
from lakewarden.service.http.management import ALIVE_WITHIN, build_management
from lakewarden.service.http.server import HttpServer
from tests.unit.service.http.conftest import ServedDaemon


def test_a_control_thread_that_is_stuck_fails_the_probe(make_served: Callable[..., ServedDaemon]) -> None:
    """The process is to be started again, and not before the bound."""
    clock = ManualClock()
    served = make_served(clock=clock)

    clock.advance(ALIVE_WITHIN - timedelta(seconds=1))
    assert served.management.get("/livez").status_code == 200

    clock.advance(timedelta(seconds=1))
    assert served.management.get("/livez").status_code == 503


@pytest.mark.parametrize(("slots", "notes"), [(2, []), (0, ["no session worker of spark profile default is up"])])
def test_a_daemon_without_workers_is_ready_and_says_what_is_missing(
    make_served: Callable[..., ServedDaemon], slots: int, notes: list[str]
) -> None:
    """It takes hooks and answers questions. A pod that left its Service with its last worker would lose both."""
    served = make_served(slots=slots)
    served.start()

    answer = served.management.get("/readyz")

    assert (answer.status_code, answer.json()) == (200, {"ready": True, "missing": [], "notes": notes})


def test_a_tables_health_is_read_at_each_scrape(served: ServedDaemon) -> None:
    """Pending instants, the oldest one's time, the age of the last look: as they are now."""
    where = {"table": "trips", "service": "compaction"}
    served.look(news=0)
    assert served.metric("lakewarden_table_service_blocked", **where) == 0
    served.lake.plan_compaction()
    served.look(news=1)

    assert served.metric("lakewarden_table_pending_instants", **where) == 1
    assert served.metric("lakewarden_table_first_pending_timestamp_seconds", **where)
    assert served.metric("lakewarden_table_commits_since", **where) == 3
    assert served.metric("lakewarden_table_pending_instants", table="trips", service="clean") == 0
    assert served.metric("lakewarden_table_poll_age_seconds", table="trips") is not None
    assert served.metric("lakewarden_table_service_blocked", **where) == 1  # it is left to the writer that planned it
    assert served.metric("lakewarden_pool_slots", spark="default", state="free") == 2


def test_a_run_is_counted_and_measured(served: ServedDaemon) -> None:
    """One run is one ending, one duration, one wait in the queue and one hold of the lock."""
    served.api.post("/v1/tables/trips/services/compaction/runs")
    served.moments.ending()

    assert served.metric("lakewarden_runs_total", service="compaction", outcome="succeeded") == 1
    assert served.metric("lakewarden_run_duration_seconds_count", service="compaction") == 1
    assert served.metric("lakewarden_queue_wait_seconds_count", service="compaction") == 1
    assert served.metric("lakewarden_lock_hold_seconds_count", service="compaction") == 1


def test_metrics_are_scraped_as_prometheus_reads_them(served: ServedDaemon) -> None:
    """The text format, with a help line and a type for each."""
    answer = served.management.get("/metrics")

    assert answer.headers["content-type"].startswith("text/plain")
    assert "# TYPE lakewarden_runs_total counter" in answer.text
    assert 'lakewarden_table_writes_in_flight{table="trips"} 0.0' in answer.text
    assert 'lakewarden_build_info{version="' in answer.text


def test_a_page_of_another_site_reads_no_metrics(served: ServedDaemon) -> None:
    """Its name was bound to our address after it was loaded. The metrics name every table. Probes name none."""
    foreign = {"Host": "evil.example"}

    assert served.management.get("/metrics", headers=foreign).status_code == 421
    assert served.management.get("/livez", headers=foreign).status_code == 200


def test_the_management_port_is_no_way_into_the_api(served: ServedDaemon) -> None:
    """Whoever may probe may not trigger."""
    assert served.management.get("/v1/tables").status_code == 404


def test_a_port_that_is_taken_is_named_at_start(served: ServedDaemon) -> None:
    """The message names the key to change."""
    app = build_management(served.composed.status, served.metrics.registry)

    with pytest.raises(PermanentError, match=r"set management\.port"):
        HttpServer(app, name="management", host="127.0.0.1", port=served.api.base_url.port or 0)
