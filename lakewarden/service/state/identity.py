"""The callers of tokens (JWT), which are checked with the public keys of their issuers."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jwt
import structlog

from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.service.config.identity import Algorithm, ClaimGrant, IssuerSettings
from lakewarden.service.model.access import LONGEST_NAME, RESERVED_NAMES, Caller, is_loopback
from lakewarden.service.model.problems import ISSUER_AWAY, Refusal, no_role, refused_token
from lakewarden.service.state.readers.threads import Threads

# The public keys of one issuer: read from it, kept for a time, and read again with bounds.

log = structlog.get_logger(__name__)

AT_MOST_EVERY = 30.0
"""Seconds between two readings. So tokens with invented keys do not make the daemon ask again and again."""

_REFRESH = timedelta(minutes=10)
"""How old the keys may be before they are read again. A token with an unknown key has them read at once."""

_KEEP = timedelta(days=1)
"""So long keys count after they were read last: an issuer that is away for a night locks no operator out."""

_CLOCK_SKEW = timedelta(seconds=30)
"""How far the clocks of the issuer and of this machine may be apart."""

_SECONDS = 5.0
_MOST_KEYS = 100

Fetch = Callable[[str, Path | None], Mapping[str, Any]]
"""Returns the JSON object at an address. A file with the authorities of its server, or None for those of the system."""


def fetched(url: str, authority: Path | None) -> Mapping[str, Any]:
    """Return the JSON object at an address. PyJWT follows no redirect. Raises TemporaryError if there is none."""
    try:
        context = ssl.create_default_context(cafile=authority)
        document: Mapping[str, Any] = jwt.PyJWKClient(
            url, cache_jwk_set=False, timeout=_SECONDS, ssl_context=context
        ).fetch_data()
    except (jwt.PyJWTError, OSError, ValueError, RecursionError) as away:
        raise TemporaryError(f"{url} does not answer as it should: {away}") from away
    return document


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
        return age is None or age > _REFRESH.total_seconds()

    def are_known(self) -> bool:
        """Whether there are keys that count."""
        age = self._age()
        return age is not None and age <= _KEEP.total_seconds()

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
        return self._settings.jwks_url or endpoint(self._settings, "jwks_uri", self._fetch)


def endpoint(settings: IssuerSettings, name: str, fetch: Fetch = fetched) -> str:
    """Return an address of an issuer, as it describes itself (OpenID Connect Discovery 1.0, section 4). Raises
    TemporaryError if the issuer does not answer, or its answer is none that can be trusted.
    """
    issuer = settings.issuer
    description = fetch(f"{issuer.rstrip('/')}/.well-known/openid-configuration", settings.authority)
    address = description.get(name)
    if description.get("issuer") != issuer or not isinstance(address, str):
        raise TemporaryError(f"{issuer} describes itself as another issuer, or names no {name}")
    parts = urlsplit(address)
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname or "")):
        raise TemporaryError(f"the {name} of {issuer} is {address[:200]!r}, which does not begin with https://")
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


LONGEST_TOKEN = 8 * 2**10
"""The most bytes of a token. The head of a request has 16 KiB."""

_WORDS = ("scope", "scp")
"""These claims have words, with spaces between them."""

_LONGEST_KEY = 500

CallerOrRefusal = Caller | Refusal


@dataclass(frozen=True, kw_only=True, slots=True)
class _Unchecked:
    """What a token says of itself. Nothing of it is believed: it says which key to check it with."""

    token: str
    issuer: str
    algorithm: Algorithm
    key: str | None


class BearerTokens:
    """Knows the callers of tokens. Any thread may ask."""

    def __init__(
        self,
        issuers: Collection[IssuerSettings],
        *,
        clock: Clock,
        threads: Threads,
        fetch: Fetch = fetched,
    ) -> None:
        self._issuers = {
            settings.issuer: (settings, IssuerKeys(settings, clock=clock, threads=threads, fetch=fetch))
            for settings in issuers
        }

    def caller(self, key: bytes) -> CallerOrRefusal | Future[CallerOrRefusal] | None:
        """Return the caller of a token, or why it is refused. None if this is no token.

        A future if its issuer must be asked first.
        """
        if key.count(b".") != 2:
            return None
        unchecked = _unchecked(key)
        if isinstance(unchecked, Refusal):
            return unchecked
        issuer = self._issuers.get(unchecked.issuer)
        if issuer is not None:
            return _of_issuer(unchecked, *issuer)
        return refused_token("its issuer is not one of access.issuers")


def _of_issuer(
    unchecked: _Unchecked, settings: IssuerSettings, keys: IssuerKeys
) -> CallerOrRefusal | Future[CallerOrRefusal]:
    if unchecked.algorithm not in settings.algorithms:
        return refused_token(f"the algorithm {unchecked.algorithm} is not one of its issuer's")
    if keys.key(unchecked.key, unchecked.algorithm) is not None:
        if keys.is_old():
            keys.reading()  # this request does not wait for it
        return _judged(unchecked, settings, keys)
    reading = keys.reading()
    if reading is None:
        return _judged(unchecked, settings, keys)
    return _after(reading, lambda: _judged(unchecked, settings, keys))


def _after(reading: Future[None], judge: Callable[[], CallerOrRefusal]) -> Future[CallerOrRefusal]:
    answer: Future[CallerOrRefusal] = Future()
    answer.set_running_or_notify_cancel()

    def done(_: Future[None]) -> None:
        try:
            answer.set_result(judge())
        except BaseException as error:  # noqa: BLE001 - the edge of the thread: it is raised where the answer is read
            answer.set_exception(error)

    reading.add_done_callback(done)
    return answer


def _judged(unchecked: _Unchecked, settings: IssuerSettings, keys: IssuerKeys) -> CallerOrRefusal:
    key = keys.key(unchecked.key, unchecked.algorithm)
    if key is None:
        return (
            refused_token("it is signed with a key that its issuer does not have") if keys.are_known() else ISSUER_AWAY
        )
    try:
        claims = jwt.decode(
            unchecked.token,
            key,
            algorithms=[unchecked.algorithm],
            audience=[*settings.audience],
            issuer=settings.issuer,
            leeway=_CLOCK_SKEW,
            options={"require": ["exp", "iss", "aud"]},
        )
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as wrong:
        return refused_token(str(wrong)[:200].lower())
    caller = caller_of_claims(claims, grants=settings.grants, name_claim=settings.name_claim, issuer=settings.issuer)
    return no_role(caller) if isinstance(caller, str) else caller


def caller_of_claims(
    claims: Mapping[str, Any], *, grants: Sequence[ClaimGrant], name_claim: str, issuer: str
) -> Caller | str:
    """Return the caller of a token that was checked, or why it has no role."""
    name = next(_values(claims, name_claim), None)
    if not isinstance(name, str) or not name.strip() or not name.isprintable() or name in RESERVED_NAMES:
        return f"its claim {name_claim} is not a caller name"
    for grant in grants:
        if grant.value in _texts(claims, grant.claim):
            subject = str(claims.get("sub", name))
            return Caller(
                name=name[:LONGEST_NAME], role=grant.role, tables=grant.tables, key=f"{issuer} {subject}"[:_LONGEST_KEY]
            )
    return f"no grant of {issuer} fits its claims"


def _unchecked(key: bytes) -> _Unchecked | Refusal:
    if len(key) > LONGEST_TOKEN:
        return refused_token(f"it has more than {LONGEST_TOKEN} bytes")
    try:
        token = key.decode("ascii")
        header, payload, _ = (part.encode() for part in token.split("."))
        head, claims = _object(header), _object(payload)
    except (ValueError, RecursionError):
        return refused_token("it is not a JWT")
    algorithm, issuer, kid = head.get("alg"), claims.get("iss"), head.get("kid")
    if not isinstance(issuer, str) or not isinstance(kid, str | None) or "crit" in head:
        return refused_token("it names no issuer, or has a header that is not known")
    try:
        alg = Algorithm(str(algorithm))
    except ValueError:
        return refused_token("its algorithm has no public key")
    return _Unchecked(token=token, issuer=issuer, algorithm=alg, key=kid)


def _object(part: bytes) -> Mapping[str, Any]:
    part_object = json.loads(jwt.utils.base64url_decode(part))
    if not isinstance(part_object, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004 - handled with the other malformed parts
    return part_object


def _texts(claims: Mapping[str, Any], name: str) -> Iterator[str]:
    for value in _values(claims, name):
        if isinstance(value, str):
            yield from value.split() if name in _WORDS else (value,)
        elif isinstance(value, list):
            yield from (text for text in value if isinstance(text, str))


def _values(claims: Mapping[str, Any], name: str) -> Iterator[Any]:
    """Yield the claim of this name: the one with its dots, and the one inside of others."""
    if name in claims:
        yield claims[name]
        return
    here: Any = claims
    for part in name.split("."):
        if not isinstance(here, dict) or part not in here:
            return
        here = here[part]
    yield here
