"""Tokens of a real issuer on this machine: which count, whom they are of, and how often the issuer is asked."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from concurrent.futures import Future
from datetime import timedelta
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from lakewarden.planners.model.clock import ManualClock
from lakewarden.service.config.identity import IssuerSettings
from lakewarden.service.model.access import Caller, Role
from lakewarden.service.model.problems import Refusal
from lakewarden.service.state.identity import BearerTokens
from lakewarden.service.state.readers.threads import PlacedThreads
from tests.support.callers import caller_of
from tests.support.issuer import Issuer, running_issuer

ALICE = "alice"


@pytest.fixture
def issuer(tmp_path: Path) -> Iterator[Issuer]:
    with running_issuer(tmp_path) as made:
        yield made


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def tokens(issuer: Issuer, clock: ManualClock) -> BearerTokens:
    return _tokens(issuer, clock)


def _tokens(issuer: Issuer, clock: ManualClock, /, **more: Any) -> BearerTokens:
    settings = {
        "issuer": issuer.url,
        "audience": ["lakewarden"],
        "authority": str(issuer.authority),
        "grants": [
            {"claim": "groups", "value": "admins", "role": "admin"},
            {"claim": "groups", "value": "operators", "role": "operator", "tables": ["sales.*"]},
            {"claim": "realm.roles", "value": "readers", "role": "viewer"},
            {"claim": "https://example.com/team", "value": "lake", "role": "trigger"},
            {"claim": "scope", "value": "lake:hook", "role": "hook"},
        ],
        **more,
    }
    threads = PlacedThreads(most=4, of_a_place=2)
    return BearerTokens([IssuerSettings.model_validate(settings)], clock=clock, threads=threads)


def _refused(tokens: BearerTokens, token: str) -> str:
    found = caller_of(tokens, token)
    assert isinstance(found, Refusal), found
    assert found.status.value in (401, 403, 503)
    return found.message


def test_a_token_of_the_issuer_is_its_caller(issuer: Issuer, tokens: BearerTokens) -> None:
    """Its name, role and tables are those of the first grant that fits. Its key names the issuer and the subject."""
    assert caller_of(tokens, issuer.token()) == Caller(
        name=ALICE, role=Role.OPERATOR, tables=("sales.*",), key=f"{issuer.url} alice"
    )
    both = caller_of(tokens, issuer.token(groups=["operators", "admins"]))
    assert isinstance(both, Caller)
    assert both.role is Role.ADMIN
    assert issuer.asked == ["/.well-known/openid-configuration", "/keys"]


@pytest.mark.parametrize(
    ("claims", "role"),
    [
        ({"groups": "admins"}, Role.ADMIN),
        ({"groups": None, "realm": {"roles": ["readers"]}}, Role.VIEWER),
        ({"groups": None, "https://example.com/team": "lake"}, Role.TRIGGER),
        ({"groups": None, "scope": "openid lake:hook"}, Role.HOOK),
    ],
)
def test_a_claim_may_be_a_text_a_list_or_inside_another_one(
    issuer: Issuer, tokens: BearerTokens, claims: dict[str, Any], role: Role
) -> None:
    """Issuers differ in where they put groups."""
    found = caller_of(tokens, issuer.token(**claims))
    assert isinstance(found, Caller)
    assert found.role is role


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"exp": int(time.time()) - 60}, "expired"),
        ({"exp": None}, "exp"),
        ({"nbf": int(time.time()) + 86_400}, "not yet valid"),
        ({"aud": "another"}, "audience"),
        ({"aud": None}, "aud"),
        ({"iss": "https://evil.example"}, "issuer is not one of"),
        ({"sub": "policy"}, "is not a caller name"),
        ({"sub": "a\nb"}, "is not a caller name"),
        ({"sub": None}, "is not a caller name"),
        ({"groups": ["strangers"]}, "no grant"),
        ({"groups": "operators admins"}, "no grant"),
        ({"groups": {"operators": True}}, "no grant"),
    ],
)
def test_other_claims_are_refused(issuer: Issuer, tokens: BearerTokens, claims: dict[str, Any], why: str) -> None:
    """The reason is told, because the token is of its issuer, or names what is wrong itself."""
    assert why in _refused(tokens, issuer.token(**claims))


def test_the_clocks_may_be_a_little_apart(issuer: Issuer, clock: ManualClock) -> None:
    """Thirty seconds, and no more."""
    tokens, now = _tokens(issuer, clock), int(time.time())
    assert isinstance(caller_of(tokens, issuer.token(exp=now - 10)), Caller)
    assert "expired" in _refused(tokens, issuer.token(exp=now - 31))


def _forged(header: dict[str, Any], claims: dict[str, Any], signature: bytes = b"") -> str:
    parts = [json.dumps(header).encode(), json.dumps(claims).encode(), signature]
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


def test_no_algorithm_without_a_public_key_counts(issuer: Issuer, tokens: BearerTokens) -> None:
    """`none`, and a token that is signed with the public key as a shared secret."""
    claims = {"iss": issuer.url, "aud": "lakewarden", "sub": "alice", "groups": ["admins"], "exp": 2**31}
    assert "no public key" in _refused(tokens, _forged({"alg": "none", "kid": "first"}, claims))
    assert "no public key" in _refused(tokens, _forged({"alg": "None", "kid": "first"}, claims, b"x"))
    public = issuer.keys["first"].public_key()
    pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    header = _forged({"alg": "HS256", "kid": "first"}, claims).rpartition(".")[0]
    signature = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256).sign(header.encode(), pem)
    confused = f"{header}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"
    assert "no public key" in _refused(tokens, confused)
    with pytest.raises(ValueError, match="HS256"):
        _tokens(issuer, ManualClock(), algorithms=["HS256"])


def test_a_symmetric_key_of_the_issuer_counts_for_nothing(issuer: Issuer, clock: ManualClock) -> None:
    """Also if the issuer publishes it under the name of an algorithm with a public key."""
    secret = base64.urlsafe_b64encode(b"x" * 32).decode()
    issuer.extra_keys = [{"kty": "oct", "k": secret, "kid": "shared", "alg": "RS256"}]
    token = issuer.token(key="shared", signer=b"x" * 32, algorithm="HS256")
    assert "no public key" in _refused(_tokens(issuer, clock), token)


def test_an_algorithm_must_be_one_of_the_issuer_and_of_the_key(issuer: Issuer, clock: ManualClock) -> None:
    """A key of an elliptic curve checks no signature of RSA, and a key of encryption none at all."""
    issuer.add_key("curve", kind="EC")
    token = issuer.token(key="curve", algorithm="ES256")
    assert isinstance(caller_of(_tokens(issuer, clock), token), Caller)
    assert "not one of its issuer's" in _refused(_tokens(issuer, clock, algorithms=["RS256"]), token)
    mixed = issuer.token(key="curve", algorithm="RS256", signer=issuer.keys["first"])
    assert "a key that its issuer does not have" in _refused(_tokens(issuer, clock), mixed)
    small = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    issuer.keys["small"] = small
    weak = _tokens(issuer, clock)
    with pytest.warns(jwt.InsecureKeyLengthWarning):
        signed = issuer.token(key="small")
    assert "a key that its issuer does not have" in _refused(weak, signed)


def test_a_token_of_another_key_is_refused(issuer: Issuer, tokens: BearerTokens) -> None:
    """Also if it names the key of the issuer, or changes a claim after the signature."""
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    assert "signature" in _refused(tokens, issuer.token(signer=other))
    header, _, signature = issuer.token().split(".")
    claims = {"iss": issuer.url, "aud": "lakewarden", "sub": "alice", "groups": ["admins"], "exp": 2**31}
    payload = _forged({}, claims).split(".")[1]
    assert "signature" in _refused(tokens, f"{header}.{payload}.{signature}")


@pytest.mark.parametrize(
    "token",
    [
        "..",
        "a.b.c",
        "e30.e30.e30",
        "\u00e9.b.c",
        "W10.W10.W10",
        base64.urlsafe_b64encode(b"[" * 3000).decode().rstrip("=") + ".e30.e30",
        _forged({"alg": "RS256", "kid": ["x"]}, {"iss": "x"}),
        _forged({"alg": "RS256", "crit": ["b64"]}, {"iss": "x"}),
        _forged({"alg": ["RS256"]}, {"iss": "x"}),
        _forged({"alg": "RS256"}, {"iss": {"a": 1}}),
        _forged({"alg": "RS256"}, {"iss": "x", "pad": "x" * 8192}),
    ],
)
def test_what_is_no_token_is_refused_without_a_question(tokens: BearerTokens, issuer: Issuer, token: str) -> None:
    """Nothing of it reaches the issuer, and nothing of it is an error of the server."""
    assert _refused(tokens, token)
    assert issuer.asked == []


def test_a_key_with_another_number_of_dots_is_no_token(tokens: BearerTokens) -> None:
    """It is an API key that does not count."""
    assert tokens.caller(b"lwk_abc") is None


def test_a_new_key_of_the_issuer_counts_at_once_and_an_old_one_ends(
    issuer: Issuer, tokens: BearerTokens, clock: ManualClock
) -> None:
    """An unknown key has the keys read again, and the keys that the issuer no longer has do not count then."""
    old = issuer.token()
    assert isinstance(caller_of(tokens, old), Caller)
    clock.advance(timedelta(seconds=31))
    issuer.add_key("second")
    del issuer.keys["first"]

    assert isinstance(caller_of(tokens, issuer.token(key="second")), Caller)
    assert "a key that its issuer does not have" in _refused(tokens, old)


def test_tokens_with_invented_keys_ask_the_issuer_once_in_thirty_seconds(
    issuer: Issuer, tokens: BearerTokens, clock: ManualClock
) -> None:
    """A flood of them does not reach the issuer, and others are answered meanwhile."""
    assert isinstance(caller_of(tokens, issuer.token()), Caller)
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    invented = [issuer.token(key=f"invented-{number}", signer=other) for number in range(20)]
    clock.advance(timedelta(seconds=31))
    before = len(issuer.asked)
    for token in invented:
        assert "a key that its issuer does not have" in _refused(tokens, token)
    assert len(issuer.asked) - before == 2  # its description and its keys, once
    assert isinstance(caller_of(tokens, issuer.token()), Caller)


def test_an_issuer_that_is_away_ends_no_token_for_a_day(
    issuer: Issuer, tokens: BearerTokens, clock: ManualClock
) -> None:
    """Its keys count for a day. Then every token is refused until it is back."""
    token = issuer.token()
    assert isinstance(caller_of(tokens, token), Caller)
    issuer.stop()
    clock.advance(timedelta(seconds=3600))
    assert isinstance(caller_of(tokens, token), Caller)
    clock.advance(timedelta(seconds=86_400))
    assert "cannot be reached now" in _refused(tokens, token)
    issuer.start()
    clock.advance(timedelta(seconds=31))
    assert isinstance(caller_of(tokens, token), Caller)


def test_an_issuer_that_is_away_at_the_start_is_told(issuer: Issuer, tokens: BearerTokens, clock: ManualClock) -> None:
    """The request may be repeated, and the token is not called invalid."""
    issuer.stop()
    assert "cannot be reached now" in _refused(tokens, issuer.token())
    issuer.start()
    assert "cannot be reached now" in _refused(tokens, issuer.token()), "thirty seconds have not passed"
    clock.advance(timedelta(seconds=31))
    assert isinstance(caller_of(tokens, issuer.token()), Caller)


@pytest.mark.parametrize(
    "content",
    [
        b"x",
        b"[]",
        b"[" * 100_000,
        b'{"keys": 5}',
        b'{"keys": [5, {"kty": "RSA"}, {"kty": "RSA", "n": 5, "e": "AQAB"}, {"kty": ["RSA"]}]}',
    ],
)
def test_an_answer_that_is_no_set_of_keys_is_refused(issuer: Issuer, clock: ManualClock, content: bytes) -> None:
    """Nothing is guessed."""
    issuer.raw_keys = content
    assert "cannot be reached now" in _refused(_tokens(issuer, clock), issuer.token())


def test_an_issuer_with_another_certificate_is_not_believed(issuer: Issuer, clock: ManualClock) -> None:
    """Its keys could be those of a thief."""
    assert "cannot be reached now" in _refused(_tokens(issuer, clock, authority=None), issuer.token())


def test_an_issuer_that_describes_another_one_is_not_believed(issuer: Issuer, clock: ManualClock) -> None:
    """The description is that of the issuer in the configuration, letter by letter."""
    other = _tokens(issuer, clock, issuer=f"{issuer.url}/")
    assert "cannot be reached now" in _refused(other, issuer.token(iss=f"{issuer.url}/"))


@pytest.mark.parametrize(
    "wrong",
    [
        {"issuer": "http://login.example.com"},
        {"issuer": "login.example.com"},
        {"issuer": "https://a:b@login.example.com"},
        {"jwks_url": "http://login.example.com/keys"},
        {"audience": []},
        {"grants": []},
        {"algorithms": ["none"]},
    ],
)
def test_a_setting_that_lets_others_in_is_refused(issuer: Issuer, clock: ManualClock, wrong: dict[str, Any]) -> None:
    """At the start, and not at the first token."""
    with pytest.raises(ValueError, match=r"Value error|Input should be"):
        _tokens(issuer, clock, **wrong)


def test_a_reading_is_joined_by_all_who_wait(issuer: Issuer, tokens: BearerTokens) -> None:
    """Twenty first requests at the same time are one question."""
    issuer.slow_seconds = 0.2
    token = issuer.token().encode()
    waiting = [tokens.caller(token) for _ in range(20)]
    answers = [one.result(timeout=30) if isinstance(one, Future) else one for one in waiting]
    assert all(isinstance(one, Caller) for one in answers)
    assert len(issuer.asked) == 2
