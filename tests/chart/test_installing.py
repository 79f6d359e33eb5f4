"""A real API server accepts the rendered chart: installed, upgraded, rolled back, and admitted under restrictions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.helm.chart import CHART, FULL, NAMESPACE, POSTGRES, RELEASE, Rendered, helm
from tests.support.helm.kubernetes import ApiServer, running_api_server

pytestmark = [pytest.mark.chart, pytest.mark.servers]

STATEFUL_SET = f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets/{RELEASE}"
_CHOSEN = {"podSecurityContext": {"runAsUser": None, "runAsGroup": None, "fsGroup": None}}
CONFIG = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{RELEASE}"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """Run one API server with a namespace that enforces the restricted level."""
    with running_api_server(tmp_path_factory.mktemp("kubernetes")) as server:
        server.make_restricted_namespace(NAMESPACE)
        yield server


@pytest.fixture
def release(cluster: ApiServer) -> Iterator[Release]:
    """Install the chart as it is, and remove it at the end."""
    made = Release(cluster)
    made.put("install", {})
    yield made
    made.helm("uninstall", "--no-hooks")


class Release:
    """A release on the API server."""

    def __init__(self, cluster: ApiServer) -> None:
        self._cluster = cluster

    def helm(self, command: str, *more: str | Path, said: str | None = None) -> str:
        """Run a Helm command on it."""
        where = ("--kubeconfig", self._cluster.kubeconfig, "--namespace", NAMESPACE)
        return helm(command, RELEASE, *more, *where, said=said)

    def put(self, command: str, values: Mapping[str, Any]) -> None:
        """Install or upgrade it with these values. Without hooks: no kubelet is here that would run their pods."""
        self.helm(command, CHART, "--values", "-", "--no-hooks", said=json.dumps(values))

    def config(self) -> dict[str, Any]:
        """Return the configuration that the daemon would read."""
        found: dict[str, Any] = yaml.safe_load(self._cluster.get(CONFIG)["data"]["lakewarden.yaml"])
        return found

    def pod(self) -> dict[str, Any]:
        """Return the pod that the controller of the StatefulSet would create, with the claim that it would add."""
        template = self._cluster.get(STATEFUL_SET)["spec"]["template"]
        claimed = {"name": "data", "persistentVolumeClaim": {"claimName": f"data-{RELEASE}-0"}}
        spec = {**template["spec"], "volumes": [*template["spec"]["volumes"], claimed]}
        return {"metadata": {**template["metadata"], "name": f"{RELEASE}-0"}, "spec": spec}


def test_an_upgrade_is_taken_and_a_rollback_takes_it_back(cluster: ApiServer, release: Release) -> None:
    """Only the size of the volume is fixed at its creation. The configuration of a revision returns with the
    revision.
    """
    before, pod_before = release.config(), release.pod()

    values = yaml.safe_load(FULL.read_text())
    del values["serviceMonitor"], values["prometheusRule"], values["httpRoute"]  # the kinds of operators
    release.put("upgrade", {**values, "data": {}})
    assert release.config()["daemon"]["drain"] == "120s"
    assert release.pod()["spec"]["terminationGracePeriodSeconds"] == 135
    assert release.pod()["metadata"]["annotations"] != pod_before["metadata"]["annotations"]

    release.helm("rollback", "1", "--no-hooks")
    assert release.config() == before
    assert release.pod() == pod_before
    revisions = json.loads(release.helm("history", "--output", "json"))
    assert [one["status"] for one in revisions] == ["superseded", "superseded", "deployed"]


def test_the_pod_is_let_in_under_the_restricted_level(cluster: ApiServer, release: Release) -> None:
    """The pod that the controller creates from the template passes validation and admission. A bare pod is refused."""
    bare = {"metadata": {"name": "bare"}, "spec": {"containers": [{"name": "bare", "image": "bare:1"}]}}
    refused = cluster.try_pod(NAMESPACE, bare)
    assert refused.status_code == 403
    assert "restricted" in refused.json()["message"]

    admitted = cluster.try_pod(NAMESPACE, release.pod())

    assert admitted.is_success, admitted.text


@pytest.mark.parametrize(
    "values", [{}, _CHOSEN, {"podSecurityContext": {"fsGroup": None}}], ids=["fixed", "chosen", "no group"]
)
def test_the_pods_of_the_hooks_are_let_in_too(cluster: ApiServer, values: Mapping[str, Any]) -> None:
    """The Job that checks the configuration, and the pod of `helm test`."""
    rendered = Rendered(values)
    [test] = rendered.all("Pod")
    job = rendered.one("Job")["spec"]["template"]
    for pod in (test, {"metadata": {**job["metadata"], "name": "check"}, "spec": job["spec"]}):
        admitted = cluster.try_pod(NAMESPACE, {"metadata": pod["metadata"], "spec": pod["spec"]})

        assert admitted.is_success, admitted.text


def test_three_replicas_are_installed_with_their_budget(cluster: ApiServer) -> None:
    """The API server takes every object of three replicas on PostgreSQL. It fills in that they are replaced in turn."""
    release = Release(cluster)
    release.put("install", yaml.safe_load(POSTGRES.read_text()))
    try:
        found = cluster.get(STATEFUL_SET)["spec"]
        budget = cluster.get(f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets/{RELEASE}")["spec"]

        assert (found["replicas"], found["updateStrategy"]["type"]) == (3, "RollingUpdate")
        assert budget["selector"] == found["selector"]
        assert budget["maxUnavailable"] == 1
    finally:
        release.helm("uninstall", "--no-hooks")
