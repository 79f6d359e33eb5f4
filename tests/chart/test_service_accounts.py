"""Tokens of service accounts, judged by a real API server: with the rights that the chart gives the daemon."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from lakewarden.planners.model.clock import ManualClock
from lakewarden.service.config.access import AccessSettings
from lakewarden.service.config.identity.tokens import ServiceAccountSettings
from lakewarden.service.model.access import Caller, Role
from lakewarden.service.model.refusals import Refusal
from lakewarden.service.state.identity.token_reviews import TokenReviews
from lakewarden.service.state.identity.tokens import BearerTokens
from lakewarden.service.state.readers.threads import PlacedThreads
from tests.support.callers import caller_of
from tests.support.helm.chart import NAMESPACE, RELEASE, Rendered
from tests.support.helm.kubernetes import ApiServer, running_api_server

pytestmark = [pytest.mark.chart, pytest.mark.servers]

GRANTS = [
    {"namespace": "jobs", "name": "writers", "role": "hook", "tables": ["sales.*"]},
    {"namespace": "people", "name": "*", "role": "viewer"},
]
VALUES = {"config": {"access": {"service_accounts": {"grants": GRANTS}}}}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """Run one API server with the namespaces and the service accounts of the tests."""
    with running_api_server(tmp_path_factory.mktemp("kubernetes")) as server:
        for namespace, name in ((NAMESPACE, RELEASE), ("jobs", "writers"), ("jobs", "others"), ("people", "alice")):
            server.make_restricted_namespace(namespace)
            server.make_service_account(namespace, name)
        yield server


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def tokens(cluster: ApiServer, clock: ManualClock, tmp_path: Path) -> BearerTokens:
    """Ask with the token of the daemon, which has the rights of the chart."""
    for kind, path in (("ClusterRole", "clusterroles"), ("ClusterRoleBinding", "clusterrolebindings")):
        cluster.apply(f"/apis/rbac.authorization.k8s.io/v1/{path}", Rendered(VALUES).one(kind))
    return _tokens(cluster, clock, tmp_path)


def _tokens(cluster: ApiServer, clock: ManualClock, folder: Path, **more: Any) -> BearerTokens:
    (folder / "token").write_text(cluster.token_of(NAMESPACE, RELEASE))
    settings = ServiceAccountSettings.model_validate(
        {
            "grants": GRANTS,
            "api_server": cluster.url,
            "authority": str(cluster.authority),
            "token": {"file": str(folder / "token")},
            **more,
        }
    )
    threads = PlacedThreads(most=4, of_a_place=4)
    return BearerTokens([], reviews=TokenReviews(settings, clock=clock, threads=threads), clock=clock, threads=threads)


def _refused(tokens: BearerTokens, token: str) -> str:
    found = caller_of(tokens, token)
    assert isinstance(found, Refusal), found
    return found.message


def test_a_service_account_is_the_caller_that_its_grant_says(cluster: ApiServer, tokens: BearerTokens) -> None:
    """Its name, its role and its tables. Another account of the same namespace has none."""
    assert caller_of(tokens, cluster.token_of("jobs", "writers", "lakewarden")) == Caller(
        name="jobs/writers", role=Role.HOOK, tables=("sales.*",), key="system:serviceaccount:jobs:writers"
    )
    alice = caller_of(tokens, cluster.token_of("people", "alice", "lakewarden"))
    assert isinstance(alice, Caller)
    assert alice.role is Role.VIEWER
    assert "no grant" in _refused(tokens, cluster.token_of("jobs", "others", "lakewarden"))


def test_a_token_for_another_audience_is_refused(cluster: ApiServer, tokens: BearerTokens) -> None:
    """A token for the API server could be used there by this daemon, and one for another program is that program's."""
    assert "issuer is not one of" in _refused(tokens, cluster.token_of("jobs", "writers"))
    assert "issuer is not one of" in _refused(tokens, cluster.token_of("jobs", "writers", "vault"))


def test_a_forged_token_is_refused_by_the_api_server(cluster: ApiServer, tokens: BearerTokens) -> None:
    """A claim that was changed after the signature counts for nothing."""
    header, payload, signature = cluster.token_of("jobs", "others", "lakewarden").split(".")
    claims = json.loads(base64.urlsafe_b64decode(payload + "=="))
    claims["sub"] = "system:serviceaccount:jobs:writers"
    forged = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    assert "does not accept it" in _refused(tokens, f"{header}.{forged}.{signature}")


def test_a_deleted_account_is_refused_when_the_answer_is_old(
    cluster: ApiServer, tokens: BearerTokens, clock: ManualClock
) -> None:
    """Until then the API server is not asked again: a minute by default."""
    cluster.make_service_account("people", "bob")
    token = cluster.token_of("people", "bob", "lakewarden")
    assert isinstance(caller_of(tokens, token), Caller)
    cluster.delete("/api/v1/namespaces/people/serviceaccounts/bob")
    assert isinstance(caller_of(tokens, token), Caller)
    clock.advance(timedelta(seconds=61))
    deadline = time.monotonic() + 30  # the API server itself keeps an answer for ten seconds
    while isinstance(caller_of(tokens, token), Caller):
        assert time.monotonic() < deadline
        clock.advance(timedelta(seconds=61))
        time.sleep(0.5)
    assert "does not accept it" in _refused(tokens, token)


def test_without_the_rights_of_the_chart_no_token_counts(
    cluster: ApiServer, clock: ManualClock, tmp_path: Path
) -> None:
    """The daemon says that it cannot ask. It does not call the token invalid."""
    tokens = _tokens(cluster, clock, tmp_path)
    (tmp_path / "token").write_text(cluster.token_of("jobs", "others"))
    assert "cannot be asked now" in _refused(tokens, cluster.token_of("jobs", "writers", "lakewarden"))


def test_without_grants_the_chart_gives_no_right_and_no_token() -> None:
    """Most daemons ask nothing of Kubernetes."""
    without, with_grants = Rendered(), Rendered(VALUES)
    assert without.all("ClusterRole") == without.all("ClusterRoleBinding") == []
    assert "serviceAccountToken" not in without.text
    [rule] = with_grants.one("ClusterRole")["rules"]
    assert rule == {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]}
    [mount] = [one for one in with_grants.pod["spec"]["containers"][0]["volumeMounts"] if one["name"] == "kubernetes"]
    default = ServiceAccountSettings()
    assert str(default.authority) == f"{mount['mountPath']}/ca.crt"
    assert str(default.own_token.file) == f"{mount['mountPath']}/token"
    assert AccessSettings.model_validate(yaml.safe_load(with_grants.config)["access"]).service_accounts.grants
