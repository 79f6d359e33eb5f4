"""Credentials that a REST catalog hands out for a table: the files that they are for, and the time until they end."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.iceberg.catalogs.vended.credentials import ASSUMED_LIFE, SHORTEST_USE, vended
from lakewarden.planners.model.errors import TemporaryError


def keys(name: str, **more: Any) -> dict[str, Any]:
    """Return the properties of credentials. Their values contain the name."""
    return {
        "s3.access-key-id": f"key-of-{name}",
        "s3.secret-access-key": f"secret-of-{name}",
        "s3.session-token": f"token-of-{name}",
        **more,
    }


def lent(**prefixes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return `storage-credentials`."""
    return [{"prefix": prefix, "config": config} for prefix, config in prefixes.items()]


def test_the_longest_prefix_is_taken() -> None:
    """The credentials of a bucket are for every file that has no others. A prefix ends with a whole name."""
    answer = {
        "storage-credentials": [
            *lent(**{"s3://lake/t": keys("table"), "s3a://lake": keys("bucket"), "s3://lake/t/data/": keys("data")}),
            {"prefix": "gs://lake/t", "config": {"gcs.oauth2.token": "x"}},
        ],
        "config": keys("config"),
    }
    found = vended(answer, given={})

    assert {
        location: None if (one := found.of(location)) is None else one.access_key
        for location in ("s3://lake/t/a", "s3://lake/t/data/a", "s3://lake/tt/a", "s3://lake/a", "s3://other/t", "/t")
    } == {
        "s3://lake/t/a": "key-of-table",
        "s3://lake/t/data/a": "key-of-data",
        "s3://lake/tt/a": "key-of-bucket",
        "s3://lake/a": "key-of-bucket",
        "s3://other/t": None,
        "/t": None,
    }


def test_older_servers_tell_credentials_in_the_config() -> None:
    """They are for every file in S3, and for no other file."""
    found = vended({"config": keys("config"), "metadata": {}}, given={})

    assert found.of("s3://any/where") is not None
    assert found.of("gs://any/where") is None
    assert vended({"config": keys("x"), "storage-credentials": lent(s3=keys("y"))}, given={}).of("s3://a/b") == (
        vended({"storage-credentials": lent(**{"s3://": keys("y")})}, given={}).of("s3://a/b")
    )


def test_the_store_is_what_is_said_last() -> None:
    """The credentials count before the table, and the table before the catalog. A renewal keeps these properties."""
    properties = {
        "s3.endpoint": "http://a",
        "client.region": "eu-1",
        "s3.path-style-access": "true",
        "token": "hunter2",
    }
    told: dict[str, Any] = {
        "config": {"s3.endpoint": "http://b", "client.refresh-credentials-endpoint": "v1/t/credentials"},
        "storage-credentials": lent(**{"s3://lake": keys("t", **{"s3.endpoint": "http://c", "s3.region": "x"})}),
    }
    first = vended(told, given=properties)
    [one] = first.credentials
    assert (one.endpoint, one.region, one.path_style) == ("http://c", "eu-1", True)
    assert first.refresh == "v1/t/credentials"

    second = vended({"storage-credentials": lent(**{"s3://lake": keys("n")})}, given=properties, known=first)
    assert (second.credentials[0].endpoint, second.credentials[0].access_key) == ("http://b", "key-of-n")
    assert second.refresh == first.refresh
    assert vended({"config": {**told["config"], "client.refresh-credentials-enabled": False}}, given={}).refresh is None


@pytest.mark.parametrize(
    ("told", "renewed_at", "ends_at"),
    [
        ({"s3.session-token-expires-at-ms": "4600000"}, 4300, 4600),  # an hour: five minutes before
        ({"s3.session-token-expires-at-ms": 1100_000}, 1080, 1100),  # short-lived: a fifth before
        ({}, 1000 + ASSUMED_LIFE * 4 / 5, 1000 + ASSUMED_LIFE),
        ({"s3.session-token-expires-at-ms": "soon"}, 1000 + ASSUMED_LIFE * 4 / 5, 1000 + ASSUMED_LIFE),
        ({"s3.session-token-expires-at-ms": "1"}, 1000 + SHORTEST_USE, 0.001),  # or our clock is wrong
    ],
)
def test_credentials_are_renewed_before_they_end(told: Mapping[str, Any], renewed_at: float, ends_at: float) -> None:
    """A request that has begun must end before the credentials do."""
    found = vended({"config": keys("t", **told)}, given={})

    assert found.renewed_at(1000) == pytest.approx(renewed_at)
    assert found.ends_at(1000) == pytest.approx(ends_at)


def test_the_first_that_ends_is_when_all_are_renewed() -> None:
    """One answer of the catalog renews all of them."""
    soon, later = {"s3.session-token-expires-at-ms": "2000000"}, {"s3.session-token-expires-at-ms": "9000000"}
    found = vended(
        {"storage-credentials": lent(**{"s3://a": keys("a", **soon), "s3://b": keys("b", **later)})}, given={}
    )

    assert (found.renewed_at(1000), found.ends_at(1000)) == (1800, 9000)


@pytest.mark.parametrize(
    "told",
    [
        {"config": {}},
        {"config": {"s3.access-key-id": "half"}},
        {"config": {"s3.remote-signing-enabled": True}},
        {"config": {"gcs.oauth2.token": "secret"}},
        {"storage-credentials": lent(**{"abfss://c@a": {"adls.sas-token.account.dfs": "secret"}})},
    ],
)
def test_other_kinds_of_access_are_no_credentials(told: Mapping[str, Any]) -> None:
    """The keys in the configuration of the catalog are not those of the table."""
    found = vended(told, given={"s3.access-key-id": "of-the-file", "s3.secret-access-key": "of-the-file"})
    assert not found.credentials
    assert "secret" not in repr(found)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(config=JSON, credentials=JSON)
def test_any_other_answer_is_an_error_of_the_catalog(config: Any, credentials: Any) -> None:
    """Any JSON gives credentials, no credentials, or a TemporaryError."""
    for answer in (
        {"config": config, "storage-credentials": credentials},
        {"storage-credentials": [credentials]},
        config,
    ):
        with contextlib.suppress(TemporaryError):
            found = vended(answer, given={})
            assert all(one.access_key and one.secret_key for one in found.credentials)


SECRETS = st.text(st.characters(min_codepoint=48, max_codepoint=122), min_size=12, max_size=40)


@given(st.lists(SECRETS, min_size=3, max_size=3, unique=True))
def test_no_representation_contains_a_secret(secrets: list[str]) -> None:
    """A log line or an error may show the value."""
    access, secret, token = secrets
    told = {
        "s3.access-key-id": access,
        "s3.secret-access-key": secret,
        "s3.session-token": token,
        "s3.endpoint": "http://s",
    }
    found = vended({"config": told, "storage-credentials": lent(**{"s3://lake/t": told})}, given=told)

    shown = f"{found!r} {found} {found.credentials} {json.dumps(dict(found.plain))}"
    assert not any(one in shown for one in secrets)
