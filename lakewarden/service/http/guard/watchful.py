"""Refusals are counted, and told of a few times a minute."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from lakewarden.service.events.sampling import Sampler
from lakewarden.service.model.refusals import Refusal, Turned

log = structlog.get_logger(__name__)

Count = Callable[[str, str], None]
"""Counts one refusal of a port, by its kind."""


def told_of(port: str, count: Count) -> Turned:
    """Return what counts and logs the refusals of a port."""
    sampler = Sampler()

    def turned(refusal: Refusal, sender: str) -> None:
        count(port, refusal.kind)
        withheld = sampler.admit(refusal.kind)
        if withheld is not None:
            log.warning("http_refused", port=port, kind=refusal.kind, sender=sender, not_told_before=withheld)

    return turned
