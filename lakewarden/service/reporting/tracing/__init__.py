"""Traces of runs for OpenTelemetry. They need the extra `otel`: `exporting` is imported only if they are configured."""
