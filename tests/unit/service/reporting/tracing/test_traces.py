"""Runs as spans, from the daemon to a collector that decodes what it gets."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lakewarden.planners.model.clock import SystemClock
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import TableId
from lakewarden.service.config.daemon import TraceSettings
from lakewarden.service.model.received_hook import HeardHook
from lakewarden.service.reporting.tracing import KEPT, Causes, sent_by
from lakewarden.service.wiring.serving import traces_to
from tests.support.daemon.daemon_harness import prepare
from tests.support.daemon.otlp_receiver import OtlpReceiver, attributes, otlp_receiver
from tests.unit.service.http.conftest import ServedDaemon

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture
def collector() -> Iterator[OtlpReceiver]:
    with otlp_receiver() as receiver:
        yield receiver


@pytest.fixture
def traced(tmp_path: Path) -> Iterator[Callable[..., ServedDaemon]]:
    """Return what starts a daemon with a table, which sends traces to an address."""
    with ExitStack() as life:

        def build(url: str, **parts: Any) -> ServedDaemon:
            traces = traces_to(TraceSettings(endpoint=url), SystemClock(), life)
            made = ServedDaemon(tmp_path, traces=traces, **parts)
            life.callback(made.stop)
            prepare(made.lake)
            made.start()
            made.look()
            return made

        yield build


def _hook(daemon: ServedDaemon, **headers: str) -> None:
    body = {"basePath": daemon.lake.folder.as_uri(), "commitTime": "20260501120000000", "tableName": "trips"}
    answer = daemon.api.post("/v1/hooks/hudi", content=json.dumps(body), headers=headers)
    assert answer.json()["result"] == "accepted"


def test_a_run_is_a_span_with_its_steps_and_a_link_to_the_hook_that_caused_it(
    collector: OtlpReceiver, traced: Callable[..., ServedDaemon]
) -> None:
    """The link is the span of the writer. The children are the queue, each permit and each step, in their order."""
    daemon = traced(collector.url)
    _hook(daemon, traceparent=f"00-{TRACE}-{SPAN}-01")
    _hook(daemon)
    run = daemon.api.post("/v1/tables/trips/services/clean/runs").json()["id"]
    ended = daemon.moments.ending()

    root, *parts = collector.run(run)

    said = attributes(root.span)
    assert root.resource["service.name"] == "lakewarden"
    assert (root.span.name, said["lakewarden.table"], said["lakewarden.state"]) == ("clean run", "trips", "SUCCEEDED")
    assert [(link.trace_id.hex(), link.span_id.hex()) for link in root.span.links] == [(TRACE, SPAN)]
    assert [event.name for event in root.span.events] == ["hook", "hook"]
    assert {"queue", "permit plan", "plan", "permit execute", "execute"} <= {one.span.name for one in parts}
    ends = [one.span.end_time_unix_nano for one in parts]
    assert all(end <= later.span.start_time_unix_nano for end, later in zip(ends, parts[1:], strict=False))
    assert ended.ended_at is not None
    assert abs(root.span.end_time_unix_nano / 10**9 - ended.ended_at.timestamp()) < 0.001
    assert {one.span.trace_id for one in parts} == {root.span.trace_id}


def test_the_next_run_of_a_service_has_only_the_hooks_after_the_previous_one(
    collector: OtlpReceiver, traced: Callable[..., ServedDaemon]
) -> None:
    """Otherwise each run would be linked to all writes before it."""
    daemon = traced(collector.url)
    _hook(daemon, traceparent=f"00-{TRACE}-{SPAN}-01")
    for links in (1, 0):
        run = daemon.api.post("/v1/tables/trips/services/clean/runs").json()["id"]
        daemon.moments.ending()
        assert len(collector.run(run)[0].span.links) == links


def test_runs_go_on_while_the_collector_is_away_and_later_ones_are_told(
    collector: OtlpReceiver, traced: Callable[..., ServedDaemon]
) -> None:
    """It answers 500, then it takes spans again. The daemon did not wait for it."""
    daemon = traced(collector.url)
    collector.status = 500
    for _ in range(3):
        daemon.api.post("/v1/tables/trips/services/clean/runs").raise_for_status()
        assert daemon.moments.ending().state == "SUCCEEDED"
    collector.status = 200
    run = daemon.api.post("/v1/tables/trips/services/clean/runs").json()["id"]
    assert daemon.moments.ending().state == "SUCCEEDED"
    assert attributes(collector.run(run)[0].span)["lakewarden.state"] == "SUCCEEDED"


def test_without_an_endpoint_nothing_is_traced() -> None:
    """It is off by default."""
    with ExitStack() as life:
        assert traces_to(TraceSettings(), SystemClock(), life) is None


def test_an_extra_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to do. The daemon does not start: traces were asked for."""
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    monkeypatch.delitem(sys.modules, "lakewarden.service.reporting.tracing", raising=False)
    with ExitStack() as life, pytest.raises(PermanentError, match=r"pip install '\.\[otel\]'"):
        traces_to(TraceSettings(endpoint="http://127.0.0.1:9/v1/traces"), SystemClock(), life)


# The hooks that caused a run.


NOW = datetime(2026, 5, 1, tzinfo=UTC)
TRIPS, ORDERS = TableId("trips"), TableId("orders")


def _heard(*tables: TableId) -> HeardHook:
    return HeardHook(sender="hudi", result="accepted", tables=tables)


def test_a_run_is_caused_by_the_hooks_since_the_previous_run_of_its_service() -> None:
    """Each service has its own. Hooks about other tables are not among them."""
    causes = Causes()
    causes.add(_heard(TRIPS), NOW)
    causes.add(_heard(ORDERS), NOW)

    assert len(causes.take(TRIPS, Service.COMPACTION)) == 1
    causes.add(_heard(TRIPS), NOW)
    assert len(causes.take(TRIPS, Service.COMPACTION)) == 1
    assert len(causes.take(TRIPS, Service.CLEAN)) == 2
    assert causes.take(TRIPS, Service.CLEAN) == []


def test_a_writer_that_commits_without_end_needs_little_memory() -> None:
    """Only the newest hooks of a table are kept."""
    causes = Causes()
    for _ in range(10 * KEPT):
        causes.add(_heard(TRIPS), NOW)

    assert len(causes.take(TRIPS, Service.CLEAN)) == KEPT


def test_the_header_names_the_span_of_the_sender() -> None:
    """A run is traced without the link if the header is wrong, or if there is none."""
    found = sent_by(f"00-{TRACE}-{SPAN}-01")
    assert found is not None
    assert (found.trace_id, found.span_id, found.trace_flags.sampled) == (int(TRACE, 16), int(SPAN, 16), True)
    assert [sent_by(header) for header in (None, "", f"00-{TRACE}-{SPAN}", f"00-{TRACE}-{'0' * 16}-01")] == [None] * 4
