"""Waiting for what another thread or process does. Nothing here measures a speed: it only finds what hangs."""

from __future__ import annotations

import time
from collections.abc import Callable

HANGS = 300.0
"""What has not come in so many seconds does not come."""


def eventually(what: Callable[[], bool], *, within: float = HANGS) -> None:
    """Return when `what` is true. Fails after `within` seconds."""
    deadline = time.monotonic() + within
    while not what():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.02)
