"""The thread that maintains the claims."""

from __future__ import annotations

import threading
from datetime import timedelta

import structlog

from lakewarden.service.ownership.claims import Claims

log = structlog.get_logger(__name__)


class ClaimKeeper:
    """The thread that maintains the claims, inside its `with` block."""

    def __init__(self, claims: Claims, *, every: timedelta = timedelta(seconds=1)) -> None:
        self._claims = claims
        self._every = every
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="claims", daemon=True)

    def __enter__(self) -> ClaimKeeper:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    def _keep(self) -> None:
        while not self._ending.wait(self._every.total_seconds()):
            try:
                self._claims.maintain()
            except Exception:  # the edge of the thread: without renewals every run would be ended
                log.exception("claims_not_maintained")
