"""Composes the access to the ports: the keys that count, as the configuration says."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import structlog

from lakewarden.planners.model.clock import Clock
from lakewarden.service.config.access import AccessSettings, Authentication
from lakewarden.service.http.access.callers import Identify
from lakewarden.service.state.api_keys import PUBLIC_KEYS, ApiKeys
from lakewarden.service.state.readers.threads import PlacedThreads
from lakewarden.service.store.port import Store

if TYPE_CHECKING:
    from lakewarden.service.state.identity.tokens import BearerTokens

_THREADS = 16
_THREADS_OF_AN_ISSUER = 4
"""An issuer that does not answer occupies no more threads than this."""

log = structlog.get_logger(__name__)


def identify_by(settings: AccessSettings, store: Store, clock: Clock, *, life: ExitStack) -> Identify | None:
    """Return what knows the callers of requests, until `life` ends. None if no request needs a key."""
    if settings.authentication is Authentication.NONE:
        return None
    keys = ApiKeys(
        store=store,
        clock=clock,
        configured=settings.keys,
        refused=PUBLIC_KEYS,
    )
    life.enter_context(keys.kept_fresh())
    tokens = _tokens_of(settings, clock)
    if not keys.count() and tokens is None:
        log.warning("no_api_key", remedy="make one with 'lakewarden keys create NAME --role operator'")
    if tokens is None:
        return keys.caller
    return lambda key: keys.caller(key) or tokens.caller(key)


def _tokens_of(settings: AccessSettings, clock: Clock) -> BearerTokens | None:
    if not settings.issuers:
        return None
    from lakewarden.service.state.identity.tokens import BearerTokens  # noqa: PLC0415 - 9 MiB of cryptography

    threads = PlacedThreads(most=_THREADS, of_a_place=_THREADS_OF_AN_ISSUER)
    return BearerTokens(settings.issuers, clock=clock, threads=threads)
