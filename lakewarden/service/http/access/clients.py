"""The addresses of clients, and what becomes of their refusals: they are counted, and logged a few times a minute."""

from __future__ import annotations

from collections.abc import Callable

import structlog
from starlette.types import Scope

from lakewarden.service.events.sampling import Sampler
from lakewarden.service.model.refusals import OnRefusal

log = structlog.get_logger(__name__)

Count = Callable[[str, str], None]
"""Counts one refusal of a port, by its kind."""


def client_of(scope: Scope) -> str:
    """Return the address of the client of a request. Empty if it is not known."""
    return str((scope.get("client") or ("",))[0])


def told_of(port: str, count: Count) -> OnRefusal:
    """Return the function that counts and logs the refusals of a port."""
    sampler = Sampler()

    def refused(kind: str, sender: str) -> None:
        count(port, kind)
        withheld = sampler.admit(kind)
        if withheld is not None:
            log.warning("http_refused", port=port, kind=kind, sender=sender, not_told_before=withheld)

    return refused
