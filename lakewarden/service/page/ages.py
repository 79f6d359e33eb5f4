"""Ages in pages. They change with the time alone, so tags of pages leave them out, and the browser counts them on."""

from __future__ import annotations

import re
from datetime import datetime

from markupsafe import Markup

from lakewarden.service.reporting.quantities import span

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
