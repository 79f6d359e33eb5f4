"""The hooks that caused a run."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import TableId
from lakewarden.service.model.heard import HeardHook
from lakewarden.service.reporting.tracing import KEPT, Causes, SentBy, sent_by

NOW = datetime(2026, 5, 1, tzinfo=UTC)
TRIPS, ORDERS = TableId("trips"), TableId("orders")
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


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


@pytest.mark.parametrize(
    ("header", "sampled"),
    [(f"00-{TRACE}-{SPAN}-01", True), (f"00-{TRACE}-{SPAN}-00", False), (f"cc-{TRACE}-{SPAN}-01-later", True)],
)
def test_the_header_names_the_span_of_the_sender(header: str, sampled: bool) -> None:
    """Also in a later version, which may add to it: the examples of W3C Trace Context."""
    assert sent_by(header) == SentBy(trace_id=int(TRACE, 16), span_id=int(SPAN, 16), sampled=sampled)


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}",
    ],
)
def test_a_header_that_the_standard_forbids_names_no_span(header: str | None) -> None:
    """The run is traced without the link."""
    assert sent_by(header) is None


@given(header=st.text(max_size=80))
def test_no_header_does_harm(header: str) -> None:
    """It comes from outside."""
    found = sent_by(header)
    assert found is None or (found.trace_id and found.span_id)
