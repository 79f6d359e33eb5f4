"""A real collector of traces: an HTTP server that takes OTLP in protobuf, as the one of OpenTelemetry does."""

from __future__ import annotations

import gzip
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.serving import Handler, serving
from tests.support.waiting import HANGS

_INFLATE: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.decompress, "deflate": zlib.decompress}


@dataclass(frozen=True)
class Told:
    """A span, and the attributes of the program that sent it."""

    span: Span
    resource: dict[str, str]


class OtlpReceiver:
    """The spans that arrived. `status` is what it answers: 200 unless a test makes it ill."""

    def __init__(self) -> None:
        self.status = 200
        self.url = ""
        self._arrived = threading.Condition()
        self._spans: list[Told] = []

    def take(self, body: bytes) -> None:
        """Keep the spans of a request."""
        request = ExportTraceServiceRequest.FromString(body)
        with self._arrived:
            for one in request.resource_spans:
                resource = {each.key: each.value.string_value for each in one.resource.attributes}
                self._spans += [Told(span, resource) for scope in one.scope_spans for span in scope.spans]
            self._arrived.notify_all()

    def run(self, run: str, *, within: float = HANGS) -> list[Told]:
        """Wait for the span of a run. Return it, and its children in the order of their begins."""

        def root() -> Told | None:
            return next((told for told in self._spans if attributes(told.span).get("lakewarden.run") == run), None)

        with self._arrived:
            assert self._arrived.wait_for(lambda: root() is not None, within), "the span of the run did not arrive"
            found = root()
            assert found is not None
            children = [told for told in self._spans if told.span.parent_span_id == found.span.span_id]
            return [found, *sorted(children, key=lambda told: told.span.start_time_unix_nano)]


def attributes(span: Span) -> dict[str, object]:
    """Return the attributes of a span."""
    return {one.key: getattr(one.value, one.value.WhichOneof("value") or "string_value") for one in span.attributes}


@contextmanager
def otlp_receiver(port: int = 0) -> Iterator[OtlpReceiver]:
    """Serve a collector."""
    receiver = OtlpReceiver()

    class Collector(Handler):
        def do_POST(self) -> None:
            body = self.body()
            assert self.headers["content-type"] == "application/x-protobuf"
            if receiver.status == 200:
                receiver.take(_INFLATE.get(self.headers.get("content-encoding", ""), bytes)(body))
            answer = ExportTraceServiceResponse().SerializeToString()
            self.answer(receiver.status, answer, {"content-type": "application/x-protobuf"})

    with serving(Collector, port=port) as found:
        receiver.url = f"http://127.0.0.1:{found}/v1/traces"
        yield receiver
