"""The edge of a thread that must go on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import structlog

log = structlog.get_logger(__name__)


@contextmanager
def edge(event: str, **facts: object) -> Iterator[None]:
    """Log what a round of a thread raises, as `event`. The thread goes on with the next round."""
    try:
        yield
    except Exception:
        log.exception(event, **facts)
