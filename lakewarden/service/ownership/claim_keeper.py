"""The thread that maintains the claims."""

from __future__ import annotations

import threading
from datetime import timedelta

from lakewarden.executors.edge import edge
from lakewarden.service.ownership.claims import Claims


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
            with edge("claims_not_maintained"):  # without renewals every run would be ended
                self._claims.maintain()
