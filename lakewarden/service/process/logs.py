"""Log lines: one event each, to standard error; JSON where nobody is watching, readable where somebody is."""

from __future__ import annotations

import contextlib
import logging
import sys
from typing import TextIO, cast

import structlog

from lakewarden.planners.model.printable import printable, printable_values
from lakewarden.service.events.sampling import Sampler


class _ForgivingStream:
    """A stream that loses what cannot be written: a full disk under the log must not end what is told of in it."""

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
    """Lets a few records a minute of each line of a library through: what a sender causes is said without end."""

    def __init__(self) -> None:
        super().__init__()
        self._sampler = Sampler(per_minute=10)

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is said; one that others were withheld before says how many."""
        withheld = self._sampler.admit((record.pathname, record.lineno))
        if withheld:
            record.msg = f"{record.getMessage()} ({withheld} like it were withheld before)"
            record.args = None
        return withheld is not None


_LONGEST_TRACE = 20_000


def _as_printable(
    _logger: structlog.typing.WrappedLogger, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Let nothing that a table or a sender is called write to a terminal, break a line, or fail to be encoded."""
    trace = event.pop("exception", None)
    shown: structlog.typing.EventDict = printable_values(event, lines=False)
    return shown if trace is None else {**shown, "exception": printable(trace, most=_LONGEST_TRACE, lines=True)}


def set_up_logs() -> None:
    """Configure structlog for this process, and let the libraries' warnings through the same door."""
    stream = cast(TextIO, _ForgivingStream(sys.stderr))
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
        if sys.stderr.isatty()
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
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(file=stream),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=logging.WARNING, stream=stream, format="%(levelname)s %(name)s %(message)s")
    for handler in logging.getLogger().handlers:
        handler.addFilter(Sampled())
