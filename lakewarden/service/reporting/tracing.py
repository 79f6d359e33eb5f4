"""The runs as spans. Nothing is told of a run before it ends, so nothing here waits for anything."""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Link, SpanContext, Status, StatusCode, get_current_span, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

import lakewarden
from lakewarden.executors.contract import Granted, Permit, Refused
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.instant import RunId, Service, Step
from lakewarden.planners.model.printable import printable
from lakewarden.planners.model.table import TableId
from lakewarden.service.events import Listener
from lakewarden.service.model.received_hook import HeardHook
from lakewarden.service.model.run import Run, RunState

# The hooks that caused a run: those about its table since the previous run of the same service.

KEPT = 32
"""So many hooks of a table are kept: the newest."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cause:
    """A hook that caused a run. `sent_by` is None if the hook did not say which span sent it."""

    sender: str
    at: datetime
    sent_by: SpanContext | None


class Causes:
    """The newest hooks of each table. Any thread may add one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._hooks: dict[TableId, deque[tuple[int, Cause]]] = {}
        self._taken: dict[tuple[TableId, Service], int] = {}

    def add(self, heard: HeardHook, at: datetime) -> None:
        """Note a hook."""
        if not heard.tables:
            return
        cause = Cause(sender=heard.sender, at=at, sent_by=sent_by(heard.traceparent))
        with self._lock:
            self._count += 1
            for table in heard.tables:
                self._hooks.setdefault(table, deque(maxlen=KEPT)).append((self._count, cause))

    def take(self, table: TableId, service: Service) -> Sequence[Cause]:
        """Return the hooks about a table since the last call for the same service, the oldest first."""
        with self._lock:
            last_number = self._taken.get((table, service), 0)
            self._taken[table, service] = self._count
            return [cause for number, cause in self._hooks.get(table, ()) if number > last_number]


def sent_by(traceparent: str | None) -> SpanContext | None:
    """Return the span that a header `traceparent` names (W3C Trace Context, level 1), or None if it names none."""
    named = TraceContextTextMapPropagator().extract({"traceparent": traceparent or ""})
    span = get_current_span(named).get_span_context()
    return span if span.is_valid else None


Value = str | int | float | bool


@dataclass(frozen=True, kw_only=True, slots=True)
class RunPart:
    """A part of a run: its time in the queue, a wait for a permit, or a step."""

    name: str
    begun_at: datetime
    ended_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class RunTrace:
    """A run that has ended, with its parts in their order, and the hooks that caused it."""

    run: Run
    parts: Sequence[RunPart]
    causes: Sequence[Cause]
    values: dict[str, Value]


@dataclass(kw_only=True, slots=True)
class _Open:
    causes: Sequence[Cause]
    queued_at: datetime | None
    parts: list[RunPart] = field(default_factory=list)
    step: tuple[Step, datetime] | None = None

    def end_step(self, at: datetime) -> None:
        """End the step that goes on, if any."""
        if self.step is not None:
            step, begun_at = self.step
            self.parts.append(RunPart(name=step.value, begun_at=begun_at, ended_at=max(begun_at, at)))
            self.step = None


class RunTraces(Listener):
    """Gathers what happens to runs, and hands each over when it has ended. `ended` must return at once."""

    def __init__(self, clock: Clock, tell: Callable[[RunTrace], None]) -> None:
        self._clock = clock
        self._tell = tell
        self._causes = Causes()
        self._open: dict[RunId, _Open] = {}

    def hook(self, heard: HeardHook) -> None:
        """Note a hook. Any thread may call."""
        self._causes.add(heard, self._clock.now())

    def requested(self, run: Run) -> None:
        """Begin a run, with the hooks since the previous run of its service."""
        causes = self._causes.take(run.table, run.service)
        self._open[run.id] = _Open(causes=causes, queued_at=run.created_at)

    def started(self, run: Run) -> None:
        """End the time in the queue."""
        trace, now = self._of(run), self._clock.now()
        if trace.queued_at is not None:
            trace.parts.append(RunPart(name="queue", begun_at=trace.queued_at, ended_at=max(trace.queued_at, now)))
            trace.queued_at = None

    def permit(self, run: Run, step: Step, permit: Permit, waited: timedelta) -> None:
        """Note an answer that ends a wait, and the step that begins with it."""
        if not isinstance(permit, Granted | Refused):
            return
        trace, now = self._of(run), self._clock.now()
        trace.end_step(now - waited)
        trace.parts.append(RunPart(name=f"permit {step}", begun_at=now - waited, ended_at=now))
        if isinstance(permit, Granted):
            trace.step = (step, now)

    def ended(self, run: Run) -> None:
        """Hand a run over. A run that became UNKNOWN goes on."""
        if run.state is RunState.UNKNOWN:
            return
        trace = self._open.pop(run.id, None)
        if trace is None:
            return
        trace.end_step(run.ended_at or self._clock.now())
        self._tell(RunTrace(run=run, parts=trace.parts, causes=trace.causes, values=_values(run)))

    def adopted(self, run: Run) -> None:
        """Go on with a run of a dead replica. That replica knew its hooks."""
        self._of(run)

    def rejected(self, run: Run, reason: str) -> None:
        """Forget a run that another replica goes on with."""
        self._open.pop(run.id, None)

    def _of(self, run: Run) -> _Open:
        return self._open.setdefault(run.id, _Open(causes=(), queued_at=None))


def _values(run: Run) -> dict[str, Value]:
    """Return what a span says of its run. Figures have their units in their names."""
    values: dict[str, Value | None] = {
        "run": run.id,
        "table": run.table,
        "service": run.service.value,
        "state": run.state.value,
        "reason": run.reason,
        "requested_by": run.requested_by,
        "outcome": run.outcome,
        "instant": run.instant,
        "owner": run.owner,
        "epoch": run.epoch,
        **{f"figures.{name}": value for name, value in run.figures.items()},
    }
    return {f"lakewarden.{name}": value for name, value in values.items() if value is not None}


# Spans, sent to a collector by OTLP/HTTP, in a thread of its own. If the collector is away, they are dropped.

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
        name = os.environ.get("OTEL_SERVICE_NAME", "lakewarden")  # what the collector shows as the origin
        resource = Resource.create({"service.name": name, "service.version": lakewarden.__version__})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
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
            links=[Link(cause.sent_by, {"lakewarden.sender": cause.sender}) for cause in trace.causes if cause.sent_by],
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


def _nanoseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1_000_000) * 1000
