"""The public keys of one issuer: read from it, kept for a time, and read again with bounds."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jwt
import structlog

from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.service.config.identity.tokens import Algorithm, IssuerSettings
from lakewarden.service.model.loopback import is_loopback
from lakewarden.service.state.readers.threads import Threads

log = structlog.get_logger(__name__)

AT_MOST_EVERY = 30.0
"""Seconds between two readings. So tokens with invented keys do not make the daemon ask again and again."""

_SECONDS = 5.0
_MOST_KEYS = 100

Fetch = Callable[[str, Path | None], Mapping[str, Any]]
"""Returns the JSON object at an address. A file with the authorities of its server, or None for those of the system."""


def fetched(url: str, authority: Path | None) -> Mapping[str, Any]:
    """Return the JSON object at an address. PyJWT follows no redirect. Raises TemporaryError if there is none."""
    try:
        context = ssl.create_default_context(cafile=authority)
        found: Mapping[str, Any] = jwt.PyJWKClient(
            url, cache_jwk_set=False, timeout=_SECONDS, ssl_context=context
        ).fetch_data()
    except (jwt.PyJWTError, OSError, ValueError, RecursionError) as away:
        raise TemporaryError(f"{url} does not answer as it should: {away}") from away
    return found


class IssuerKeys:
    """Knows the public keys of an issuer. Any thread may ask."""

    def __init__(
        self,
        settings: IssuerSettings,
        *,
        clock: Clock,
        threads: Threads,
        fetch: Fetch = fetched,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._threads = threads
        self._fetch = fetch
        self._keys: Sequence[Mapping[str, Any]] = ()
        self._read_at: float | None = None
        self._begun_at: float | None = None
        self._reading: Future[None] | None = None
        self._changing = threading.Lock()

    def key(self, name: str | None, algorithm: Algorithm) -> jwt.PyJWK | None:
        """Return the key for a token, or None. Keys that are too old do not count.

        A token that names no key needs an issuer with one key of the algorithm.
        """
        if not self.are_known():
            return None
        named = [entry for entry in self._keys if name in (None, entry.get("kid"))]
        fitting = [key for entry in named if (key := _public_key(entry, algorithm)) is not None]
        return fitting[0] if len(fitting) == 1 else None

    def is_old(self) -> bool:
        """Whether the keys are due to be read again."""
        age = self._age()
        return age is None or age > self._settings.refresh.total_seconds()

    def are_known(self) -> bool:
        """Whether there are keys that count."""
        age = self._age()
        return age is not None and age <= self._settings.keep.total_seconds()

    def reading(self) -> Future[None] | None:
        """Begin to read the keys, or join the reading that is under way. None if the last one was a moment ago.

        The result is raised nowhere: a failure is logged, and the old keys go on to count.
        """
        now = self._clock.monotonic()
        with self._changing:
            if self._reading is not None and not self._reading.done():
                return self._reading
            if self._begun_at is not None and now - self._begun_at < AT_MOST_EVERY:
                return None
            self._begun_at = now
            self._reading = self._threads.submit(self._read, place=self._settings.issuer)
            return self._reading

    def _age(self) -> float | None:
        return None if self._read_at is None else self._clock.monotonic() - self._read_at

    def _read(self) -> None:
        begun_at = self._clock.monotonic()
        try:
            written = self._fetch(self._address(), self._settings.authority).get("keys")
            entries = written[:_MOST_KEYS] if isinstance(written, list) else []
            keys = [entry for entry in entries if isinstance(entry, dict) and self._fits(entry)]
            if not keys:
                raise TemporaryError(f"it has no key for {', '.join(self._settings.algorithms)}")
        except TemporaryError as away:
            log.warning("issuer_keys_not_read", issuer=self._settings.issuer, error=str(away))
            return
        self._keys, self._read_at = keys, begun_at

    def _fits(self, entry: Mapping[str, Any]) -> bool:
        return any(_public_key(entry, algorithm) is not None for algorithm in self._settings.algorithms)

    def _address(self) -> str:
        if self._settings.jwks_url is not None:
            return self._settings.jwks_url
        issuer = self._settings.issuer
        description = self._fetch(f"{issuer.rstrip('/')}/.well-known/openid-configuration", self._settings.authority)
        address = description.get("jwks_uri")
        if description.get("issuer") != issuer or not isinstance(address, str):
            raise TemporaryError(f"{issuer} describes itself as another issuer, or names no jwks_uri")
        parts = urlsplit(address)
        if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname or "")):
            raise TemporaryError(f"{issuer} has its keys at {address[:200]!r}, which does not begin with https://")
        return address


def _public_key(entry: Mapping[str, Any], algorithm: Algorithm) -> jwt.PyJWK | None:
    """Return the key of an entry (RFC 7517) that checks signatures with an algorithm, or None if it is for others."""
    if entry.get("alg", algorithm) != algorithm or entry.get("use", "sig") != "sig":
        return None
    public = {name: value for name, value in entry.items() if name != "d"}  # a private part is none of our business
    try:
        key = jwt.PyJWK(public, algorithm=algorithm)
        too_short = key.Algorithm.check_key_length(key.key)
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        return None
    return None if too_short else key
