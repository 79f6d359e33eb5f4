"""What a worker and its JVM wrote to their common log, line by line, with the run that it names. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakewarden.executors.pool.run_logs import LONGEST_LINE, LogLine
from lakewarden.planners.model.credentials import REDACTED, names_a_secret, without_credentials
from lakewarden.planners.model.instant import RunId
from lakewarden.planners.model.printable import printable

_KNOWN = frozenset({"ts", "level", "logger", "event", "message", "exception", "source", "run"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """One line. `run` is the run that it names, if it names one."""

    line: LogLine
    run: RunId | None


def said(text: str) -> Said:
    """Return what a line of a worker's log says, without credentials.

    The worker writes JSON with structlog. Anything else is a line of the JVM, or of another program that wrote to
    standard output or error.
    """
    known = _object(text)
    if known is None:
        return Said(line=LogLine(source="jvm", message=_clean(text)), run=None)
    message = str(known.get("message") or known.get("event") or "")
    if trace := str(known.get("exception") or "").strip():
        message = f"{message}\n{trace}"
    return Said(
        line=LogLine(
            at=_text(known, "ts"),
            source="jvm" if known.get("source") == "jvm" else "worker",
            level=(_text(known, "level") or "").lower() or None,
            logger=_text(known, "logger"),
            message=_clean(message),
            fields={
                printable(str(name)): REDACTED if names_a_secret(name) else _clean(str(value))
                for name, value in known.items()
                if name not in _KNOWN and value is not None
            },
        ),
        run=RunId(run) if (run := _text(known, "run")) else None,
    )


def _object(text: str) -> Mapping[str, Any] | None:
    if not text.startswith("{"):
        return None
    try:
        known = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return known if isinstance(known, dict) and ("event" in known or "message" in known) else None


def _text(known: Mapping[str, Any], name: str) -> str | None:
    value = known.get(name)
    return printable(value) if isinstance(value, str) and value else None


def _clean(text: str) -> str:
    return printable(without_credentials(text[: LONGEST_LINE + 1]), most=LONGEST_LINE + 1, lines=True)
