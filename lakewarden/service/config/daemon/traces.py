"""The settings of traces."""

from __future__ import annotations

from pydantic import Field

from lakewarden.planners.settings import Settings


class TraceSettings(Settings):
    """Traces of the runs, for an OpenTelemetry collector. They need the extra `otel`."""

    endpoint: str | None = Field(default=None, pattern=r"^https?://[^\s/@]+(/\S*)?$")
    """Where the spans are sent by OTLP/HTTP, for example `http://collector:4318/v1/traces`. Without it there are no
    traces. Headers and certificates come from the environment: `OTEL_EXPORTER_OTLP_HEADERS`,
    `OTEL_EXPORTER_OTLP_CERTIFICATE`. `OTEL_RESOURCE_ATTRIBUTES` describes the daemon. If the collector is away, spans
    are dropped, and runs go on.
    """
