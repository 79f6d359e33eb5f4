"""The public keys of one issuer: read from it, kept for a time, and read again with bounds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import jwt
import structlog
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.service.config.identity.tokens import Algorithm, IssuerSettings
from lakewarden.service.model.loopback import is_loopback
from lakewarden.service.state.identity.asking import asked
from lakewarden.service.state.readers.threads import Threads

log = structlog.get_logger(__name__)

AT_MOST_EVERY = 30.0
"""Seconds between two readings. So tokens with invented keys do not make the daemon ask again and again."""

_MOST_KEYS = 100
_SHORTEST_RSA = 2048

_KINDS: Mapping[str, frozenset[Algorithm]] = {
    "RSA": frozenset(Algorithm) - {Algorithm.ES256, Algorithm.ES384, Algorithm.ES512, Algorithm.EDDSA},
    "P-256": frozenset({Algorithm.ES256}),
    "P-384": frozenset({Algorithm.ES384}),
    "P-521": frozenset({Algorithm.ES512}),
    "Ed25519": frozenset({Algorithm.EDDSA}),
    "Ed448": frozenset({Algorithm.EDDSA}),
}
"""The algorithms of each kind of key. A symmetric key (`oct`) has no kind here, so it never counts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PublicKey:
    """A public key, its id, and the algorithms that it may be used with."""

    id: str | None
    algorithms: frozenset[Algorithm]
    key: Any


class IssuerKeys:
    """Knows the public keys of an issuer. Any thread may ask."""

    def __init__(
        self,
        settings: IssuerSettings,
        *,
        clock: Clock,
        threads: Threads,
        ask: Callable[..., Mapping[str, Any]] = asked,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._threads = threads
        self._ask = ask
        self._keys: Sequence[PublicKey] = ()
        self._read_at: float | None = None
        self._asked_at: float | None = None
        self._reading: Future[None] | None = None
        self._changing = threading.Lock()

    def found(self, key: str | None, algorithm: Algorithm) -> PublicKey | None:
        """Return the key for a token, or None. Keys that are too old do not count.

        A token that names no key needs an issuer with one key of the algorithm.
        """
        age = self._age()
        if age is None or age > self._settings.keep.total_seconds():
            return None
        fitting = [one for one in self._keys if algorithm in one.algorithms and key in (None, one.id)]
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
            if self._asked_at is not None and now - self._asked_at < AT_MOST_EVERY:
                return None
            self._asked_at = now
            self._reading = self._threads.submit(self._read, place=self._settings.issuer)
            return self._reading

    def _age(self) -> float | None:
        return None if self._read_at is None else self._clock.monotonic() - self._read_at

    def _read(self) -> None:
        asked_at = self._clock.monotonic()
        try:
            written = self._ask(self._address(), authority=self._settings.authority).get("keys")
            keys = keys_of(written, self._settings.algorithms)
            if not keys:
                raise TemporaryError(f"it has no key for {', '.join(self._settings.algorithms)}")
        except TemporaryError as away:
            log.warning("issuer_keys_not_read", issuer=self._settings.issuer, error=str(away))
            return
        self._keys, self._read_at = keys, asked_at

    def _address(self) -> str:
        if self._settings.jwks_url is not None:
            return self._settings.jwks_url
        issuer = self._settings.issuer
        said = self._ask(f"{issuer.rstrip('/')}/.well-known/openid-configuration", authority=self._settings.authority)
        address = said.get("jwks_uri")
        if said.get("issuer") != issuer or not isinstance(address, str):
            raise TemporaryError(f"{issuer} describes itself as another issuer, or names no jwks_uri")
        parts = urlsplit(address)
        if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname or "")):
            raise TemporaryError(f"{issuer} has its keys at {address[:200]!r}, which does not begin with https://")
        return address


def keys_of(written: Any, allowed: Sequence[Algorithm]) -> Sequence[PublicKey]:
    """Return the keys of a set (RFC 7517) that can check a signature with one of the allowed algorithms."""
    entries = written if isinstance(written, list) else []
    found = [_key(entry, allowed) for entry in entries[:_MOST_KEYS] if isinstance(entry, dict)]
    return [key for key in found if key is not None]


def _key(entry: Mapping[str, Any], allowed: Sequence[Algorithm]) -> PublicKey | None:
    kind = entry.get("kty") if entry.get("kty") == "RSA" else entry.get("crv")
    algorithms = _KINDS.get(str(kind), frozenset()) & frozenset(allowed)
    if "alg" in entry:
        algorithms &= {one for one in allowed if one == entry["alg"]}
    if not algorithms or entry.get("use", "sig") != "sig" or entry.get("kty") not in ("RSA", "EC", "OKP"):
        return None
    public = {name: value for name, value in entry.items() if name != "d"}  # a private part is none of our business
    try:
        key = jwt.PyJWK.from_dict(public, algorithm=next(iter(algorithms))).key
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        return None
    if isinstance(key, RSAPublicKey) and key.key_size < _SHORTEST_RSA:
        return None
    name = entry.get("kid")
    return PublicKey(id=name if isinstance(name, str) else None, algorithms=algorithms, key=key)
