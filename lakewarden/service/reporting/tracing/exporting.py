"""Spans, sent to a collector by OTLP/HTTP, in a thread of its own. If the collector is away, they are dropped."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime

import structlog
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Link, SpanContext, Status, StatusCode, TraceFlags, set_span_in_context

import lakewarden
from lakewarden.planners.model.printable import printable
from lakewarden.service.model.run import RunState
from lakewarden.service.reporting.tracing.causes import Cause
from lakewarden.service.reporting.tracing.recording import RunTrace

log = structlog.get_logger(__name__)

SEND_SECONDS = 5.0
"""An attempt to send a batch takes so long at most."""

LAST_SECONDS = 3.0
"""So long the end of the daemon waits for the last spans."""

_QUEUE, _BATCH, _EVERY_MS = 2048, 256, 1000


class Collector:
    """A collector of traces. `close` sends what is left, for three seconds at most."""

    def __init__(self, endpoint: str) -> None:
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # the exporter below says what matters, once
        self._provider = TracerProvider(
            resource=_resource(),
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(
            BatchSpanProcessor(
                _Reporting(OTLPSpanExporter(endpoint, timeout=SEND_SECONDS), endpoint),
                max_queue_size=_QUEUE,
                max_export_batch_size=_BATCH,
                schedule_delay_millis=_EVERY_MS,
            )
        )
        self._tracer = self._provider.get_tracer("lakewarden", lakewarden.__version__)

    def tell(self, trace: RunTrace) -> None:
        """Queue the spans of a run. If the queue is full, they are dropped."""
        run = trace.run
        root = self._tracer.start_span(
            f"{run.service} run",
            attributes=trace.values,
            links=[link for cause in trace.causes if (link := _link(cause)) is not None],
            start_time=_nanoseconds(run.created_at),
        )
        for cause in trace.causes:
            root.add_event("hook", {"lakewarden.sender": cause.sender}, timestamp=_nanoseconds(cause.at))
        if run.state is RunState.FAILED:
            root.set_status(Status(StatusCode.ERROR, run.outcome))
        within = set_span_in_context(root)
        for part in trace.parts:
            span = self._tracer.start_span(part.name, within, start_time=_nanoseconds(part.begun_at))
            span.end(_nanoseconds(part.ended_at))
        root.end(_nanoseconds(run.ended_at or run.created_at))

    def close(self) -> None:
        """Send the spans that are left. The daemon does not wait for a collector that is away."""
        last = threading.Thread(target=self._provider.shutdown, name="last-traces", daemon=True)
        last.start()
        last.join(LAST_SECONDS)


class _Reporting(SpanExporter):
    """Says in the log when a collector does not take the spans, and when it takes them again."""

    def __init__(self, inner: SpanExporter, endpoint: str) -> None:
        self._inner = inner
        self._endpoint = endpoint
        self._well = True

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans."""
        why = "the collector did not take them in time"
        try:
            result = self._inner.export(spans)
        except Exception as failure:  # noqa: BLE001 - the edge of the loop that sends traces
            result, why = SpanExportResult.FAILURE, printable(str(failure), most=300)
        well = result is SpanExportResult.SUCCESS
        if self._well and not well:
            log.warning("traces_not_sent", endpoint=self._endpoint, reason=why, remedy="check traces.endpoint")
        if well and not self._well:
            log.info("traces_sent_again", endpoint=self._endpoint)
        self._well = well
        return result

    def shutdown(self) -> None:
        """End the exporter."""
        with suppress(Exception):
            self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Return at once: nothing is kept here."""
        return True


def _resource() -> Resource:
    """Return what the collector shows as the origin of the spans. The environment may name it."""
    name = os.environ.get("OTEL_SERVICE_NAME", "lakewarden")
    return Resource.create({"service.name": name, "service.version": lakewarden.__version__})


def _link(cause: Cause) -> Link | None:
    if cause.sent_by is None:
        return None
    flags = TraceFlags(TraceFlags.SAMPLED if cause.sent_by.sampled else TraceFlags.DEFAULT)
    context = SpanContext(cause.sent_by.trace_id, cause.sent_by.span_id, is_remote=True, trace_flags=flags)
    return Link(context, {"lakewarden.sender": cause.sender})


def _nanoseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1_000_000) * 1000
