"""The callers of tokens (JWT), which are checked with the public keys of their issuers."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import jwt

from lakewarden.planners.model.clock import Clock
from lakewarden.service.config.identity.tokens import Algorithm, ClaimGrant, IssuerSettings
from lakewarden.service.model.access import LONGEST_NAME, RESERVED_NAMES, Caller
from lakewarden.service.model.refusals import ISSUER_AWAY, Refusal, no_role, refused_token
from lakewarden.service.state.identity.issuer_keys import Fetch, IssuerKeys, fetched
from lakewarden.service.state.readers.threads import Threads

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
            leeway=settings.clock_skew,
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
        return f"its claim {name_claim} is no name of a caller"
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
        return refused_token("it is no JWT")
    algorithm, issuer, kid = head.get("alg"), claims.get("iss"), head.get("kid")
    if not isinstance(issuer, str) or not isinstance(kid, str | None) or "crit" in head:
        return refused_token("it names no issuer, or has a header that is not known")
    try:
        known = Algorithm(str(algorithm))
    except ValueError:
        return refused_token("its algorithm has no public key")
    return _Unchecked(token=token, issuer=issuer, algorithm=known, key=kid)


def _object(part: bytes) -> Mapping[str, Any]:
    part_object = json.loads(jwt.utils.base64url_decode(part))
    if not isinstance(part_object, dict):
        raise ValueError("it is no JSON object")  # noqa: TRY004 - handled with the other malformed parts
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
