"""Refusals are counted, and logged a few times a minute."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from lakewarden.service.events.sampling import Sampler
from lakewarden.service.model.refusals import OnRefusal, Refusal

log = structlog.get_logger(__name__)

Count = Callable[[str, str], None]
"""Counts one refusal of a port, by its kind."""


def told_of(port: str, count: Count) -> OnRefusal:
    """Return the function that counts and logs the refusals of a port."""
    sampler = Sampler()

    def refused(refusal: Refusal, sender: str) -> None:
        count(port, refusal.kind)
        withheld = sampler.admit(refusal.kind)
        if withheld is not None:
            log.warning("http_refused", port=port, kind=refusal.kind, sender=sender, not_told_before=withheld)

    return refused
