"""Waiting for what another process does."""

from __future__ import annotations

import time
from collections.abc import Callable

from lakewarden.planners.model.errors import PermanentError

_POLL_SECONDS = 0.2


def wait_until(done: Callable[[], bool], seconds: float, otherwise: str) -> None:
    """Wait until `done`. Raises PermanentError with `otherwise` after so many seconds."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            raise PermanentError(f"{otherwise} after {seconds:.0f} s")
        time.sleep(_POLL_SECONDS)
