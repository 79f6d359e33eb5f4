"""HTML from values. Every text is escaped, and shown as any terminal could show it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import lakewarden
from lakewarden.planners.model.printable import counted, printable, size, span
from lakewarden.service.reporting.explain.text import forecast_in_words

# Ages in pages. They change with the time alone, so tags of pages leave them out, and the browser counts them on.

UNKNOWN = "\u2013"
"""What a page shows for a value that is not known."""

_OF_THE_MOMENT = re.compile(rb'<time class="now"[^>]*>[^<]*|(<time class="age"[^>]*>)[^<]*')


def ago(moment: datetime | None, now: datetime) -> Markup | str:
    """Return how long ago a moment was: `12s ago`."""
    return UNKNOWN if moment is None else _age(moment, now, words=" ago")


def since(moment: datetime | None, now: datetime) -> Markup | str:
    """Return how long something has lasted since a moment: `12s`."""
    return UNKNOWN if moment is None else _age(moment, now, words="")


def without_ages(page: bytes) -> bytes:
    """Return a page without its ages, and without the moment at which it was made."""
    return _OF_THE_MOMENT.sub(rb"\1", page)


def _age(moment: datetime, now: datetime, *, words: str) -> Markup:
    text = span(max(0.0, (now - moment).total_seconds()))
    return Markup('<time class="age" data-words="{}" datetime="{}">{}{}</time>').format(
        words, moment.isoformat(timespec="seconds"), text, words
    )


STATIC = Path(__file__).parent / "static"
"""The files that pages load. They change only with a release."""


def static_files() -> Mapping[str, bytes]:
    """Return the content of every static file, by its name."""
    return {path.name: path.read_bytes() for path in sorted(STATIC.iterdir()) if path.suffix in (".css", ".js", ".svg")}


class Pages:
    """The templates."""

    def __init__(self) -> None:
        self._templates = Environment(
            loader=PackageLoader("lakewarden.service.page"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            finalize=_printable,
        )
        self._templates.filters.update(
            ago=ago,
            since=since,
            counted=counted,
            size=size,
            span=_span,
            moment=_moment,
            words=_words,
            figure=figure,
            setting=_setting,
            lines=_lines,
            breaks=_breaks,
            coded=_coded,
            kind=kind,
            forecast=forecast_in_words,
        )
        self._templates.globals.update(
            release=lakewarden.__version__,
            marks={name: hashlib.sha256(content).hexdigest()[:12] for name, content in static_files().items()},
        )

    def rendered(self, page: str, **values: Any) -> str:
        """Return a page. `now` is among its values."""
        return self._templates.get_template(f"{page}.html").render(values)


def _printable(value: Any) -> Any:
    if isinstance(value, Markup) or not isinstance(value, str):
        return UNKNOWN if value is None else value
    return printable(value)


def _span(length: timedelta | float | None) -> str:
    if length is None:
        return UNKNOWN
    return span(length.total_seconds() if isinstance(length, timedelta) else length)


def _moment(moment: datetime | None) -> str:
    return UNKNOWN if moment is None else f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def figure(value: object, name: str) -> object:
    """Return a figure of a run for people. Its name has the unit: `bytes_rewritten`, `plan_seconds`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    units = name.split("_")
    if "bytes" in units:
        return size(value)
    if units[-1] == "seconds":
        return span(value) if value < 1 or value >= 60 else f"{value:.1f}s"
    return f"{value:,}"


def _words(name: str) -> str:
    return name.replace("_", " ")


def _breaks(name: str) -> Markup:
    """Return a name that a browser may break after a dot, a slash and an underscore."""
    return Markup(re.sub(r"(?<=[./_])(?=.)", "<wbr>", str(Markup.escape(printable(name)))))  # noqa: S704 - it is escaped


def _coded(text: str) -> Markup:
    """Return a text of several lines with its commands, which stand between backticks, as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(_lines(text))))  # noqa: S704 - it is escaped


def kind(decision: str) -> str:
    """Return the name of a decision for people: `not due` for `NotDue`."""
    return (
        "due, not run in mode plan" if decision == "WouldRun" else re.sub(r"(?<=[a-z])(?=[A-Z])", " ", decision).lower()
    )


def _setting(value: object) -> str:
    """Return the value of a setting as the configuration has it."""
    return UNKNOWN if value is None else value if isinstance(value, str) else json.dumps(value, default=str)


def _lines(text: str) -> Markup:
    """Return a text of several lines. Each line is printable."""
    return Markup.escape(printable(text, lines=True))
