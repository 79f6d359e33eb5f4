"""The callers of tokens (JWT): checked with the public keys of their issuers, or by the API server of Kubernetes."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import jwt

from lakewarden.planners.model.clock import Clock
from lakewarden.service.config.identity.tokens import Algorithm, IssuerSettings
from lakewarden.service.model.access import Caller
from lakewarden.service.model.refusals import ISSUER_AWAY, Refusal, no_role, refused_token
from lakewarden.service.state.identity.asking import asked
from lakewarden.service.state.identity.claims import caller_of_claims
from lakewarden.service.state.identity.issuer_keys import IssuerKeys
from lakewarden.service.state.identity.token_reviews import TokenReviews
from lakewarden.service.state.readers.threads import Threads

LONGEST_TOKEN = 8 * 2**10
"""The most bytes of a token. The head of a request has 16 KiB."""

CallerOrRefusal = Caller | Refusal


@dataclass(frozen=True, kw_only=True, slots=True)
class _Unchecked:
    """What a token says of itself. Nothing of it is believed: it says which key to check it with."""

    token: str
    issuer: str
    audience: Collection[str]
    algorithm: Algorithm
    key: str | None


class BearerTokens:
    """Knows the callers of tokens. Any thread may ask."""

    def __init__(
        self,
        issuers: Collection[IssuerSettings],
        *,
        reviews: TokenReviews | None,
        clock: Clock,
        threads: Threads,
        ask: Callable[..., Mapping[str, Any]] = asked,
    ) -> None:
        """`reviews` judges the tokens of service accounts. None if none of them counts."""
        self._issuers = {one.issuer: (one, IssuerKeys(one, clock=clock, threads=threads, ask=ask)) for one in issuers}
        self._reviews = reviews

    def caller(self, key: bytes) -> CallerOrRefusal | Future[CallerOrRefusal] | None:
        """Return the caller of a token, or why it is refused. None if this is no token.

        A future if an issuer or the API server must be asked first.
        """
        if key.count(b".") != 2:
            return None
        found = _unchecked(key)
        if isinstance(found, Refusal):
            return found
        issuer = self._issuers.get(found.issuer)
        if issuer is not None:
            return self._of_issuer(found, *issuer)
        if self._reviews is not None and self._reviews.audience in found.audience:
            return self._reviews.caller(found.token)
        return refused_token("its issuer is not one of access.issuers")

    def _of_issuer(
        self, found: _Unchecked, settings: IssuerSettings, keys: IssuerKeys
    ) -> CallerOrRefusal | Future[CallerOrRefusal]:
        if found.algorithm not in settings.algorithms:
            return refused_token(f"the algorithm {found.algorithm} is not one of its issuer's")
        if keys.found(found.key, found.algorithm) is not None:
            if keys.is_old():
                keys.reading()  # this request does not wait for it
            return _judged(found, settings, keys)
        reading = keys.reading()
        if reading is None:
            return _judged(found, settings, keys)
        return _after(reading, lambda: _judged(found, settings, keys))


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


def _judged(found: _Unchecked, settings: IssuerSettings, keys: IssuerKeys) -> CallerOrRefusal:
    key = keys.found(found.key, found.algorithm)
    if key is None:
        return (
            refused_token("it is signed with a key that its issuer does not have") if keys.are_known() else ISSUER_AWAY
        )
    try:
        claims = jwt.decode(
            found.token,
            key.key,
            algorithms=[found.algorithm],  # the key is one for it: the keys of an issuer have their algorithms
            audience=[*settings.audience],
            issuer=settings.issuer,
            leeway=settings.clock_skew,
            options={"require": ["exp", "iss", "aud"]},
        )
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as wrong:
        return refused_token(str(wrong)[:200].lower())
    caller = caller_of_claims(claims, grants=settings.grants, name_claim=settings.name_claim, issuer=settings.issuer)
    return no_role(caller) if isinstance(caller, str) else caller


def _unchecked(key: bytes) -> _Unchecked | Refusal:
    if len(key) > LONGEST_TOKEN:
        return refused_token(f"it has more than {LONGEST_TOKEN} bytes")
    try:
        token = key.decode("ascii")
        header, payload, _ = (part.encode() for part in token.split("."))
        head, claims = _object(header), _object(payload)
    except (ValueError, RecursionError):
        return refused_token("it is no JWT")
    algorithm, issuer, kid = head.get("alg"), claims.get("iss"), head.get("kid")
    if not isinstance(issuer, str) or not isinstance(kid, str | None) or "crit" in head:
        return refused_token("it names no issuer, or has a header that is not known")
    try:
        known = Algorithm(str(algorithm))
    except ValueError:
        return refused_token("its algorithm has no public key")
    said = claims.get("aud")
    audience = [said] if isinstance(said, str) else said if isinstance(said, list) else []
    return _Unchecked(token=token, issuer=issuer, audience=audience, algorithm=known, key=kid)


def _object(part: bytes) -> Mapping[str, Any]:
    found = json.loads(jwt.utils.base64url_decode(part))
    if not isinstance(found, dict):
        raise ValueError("it is no JSON object")  # noqa: TRY004 - handled with the other malformed parts
    return found
