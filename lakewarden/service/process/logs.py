"""Log lines to standard error, one event each: readable on a terminal, otherwise JSON."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
from datetime import UTC, datetime
from typing import TextIO, cast

import structlog

from lakewarden.planners.model.printable import printable, printable_values
from lakewarden.service.config.daemon import LogFormat, LogLevel
from lakewarden.service.events import Sampler


class _ForgivingStream:
    """A stream that drops what cannot be written. A full disk under the log must not end the daemon."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.flush()


class Sampled(logging.Filter):
    """Lets only a few records a minute of each line of a library through, because senders can cause them
    without end.
    """

    def __init__(self) -> None:
        super().__init__()
        self._sampler = Sampler(per_minute=10)

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is logged. If others were withheld before it, it says how many."""
        withheld = self._sampler.admit((record.pathname, record.lineno))
        if withheld:
            record.msg = f"{record.getMessage()} ({withheld} like it were withheld before)"
            record.args = None
        return withheld is not None


class _AsJson(logging.Formatter):
    """Writes the record of a library as one JSON object, as the daemon's own lines are."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        fields = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "event": "library",
            "logger": record.name,
            "message": super().format(record),
        }
        return json.dumps(printable_values(fields, lines=False))


_LONGEST_TRACE = 20_000
_LEVELS = {
    LogLevel.DEBUG: logging.DEBUG,
    LogLevel.INFO: logging.INFO,
    LogLevel.WARNING: logging.WARNING,
    LogLevel.ERROR: logging.ERROR,
}


def _as_printable(
    _logger: structlog.typing.WrappedLogger, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Remove characters from names of tables and senders that control a terminal, break a line, or cannot be
    encoded. What a reader looks for first comes first.
    """
    event = {**{key: event[key] for key in ("ts", "level", "event") if key in event}, **event}
    trace = event.pop("exception", None)
    fields: structlog.typing.EventDict = printable_values(event, lines=False)
    return fields if trace is None else {**fields, "exception": printable(trace, most=_LONGEST_TRACE, lines=True)}


def set_up_logs(form: LogFormat = LogFormat.AUTO, level: LogLevel = LogLevel.INFO) -> None:
    """Configure structlog for this process, and let the warnings of libraries through the same stream.

    A line of a library has the form of the other lines, so that a collector of JSON lines can read the whole stream.
    """
    stream = cast(TextIO, _ForgivingStream(sys.stderr))
    as_text = sys.stderr.isatty() if form is LogFormat.AUTO else form is LogFormat.TEXT
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback)
        if as_text
        else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
            structlog.processors.format_exc_info,
            _as_printable,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(file=stream),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=logging.WARNING, stream=stream, format="%(levelname)s %(name)s %(message)s")
    for handler in logging.getLogger().handlers:
        if not as_text:
            handler.setFormatter(_AsJson())
        handler.addFilter(Sampled())
