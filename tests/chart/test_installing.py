"""A real API server takes what the chart renders: installed, changed, taken back, and let in under restrictions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.chart import CHART, FULL, NAMESPACE, RELEASE, helm
from tests.support.kubernetes import ApiServer, running_api_server

pytestmark = pytest.mark.chart

STATEFUL_SET = f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets/{RELEASE}"
CONFIG = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{RELEASE}"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """Run one API server with a namespace that enforces the restricted level."""
    with running_api_server(tmp_path_factory.mktemp("kubernetes")) as server:
        server.make_restricted_namespace(NAMESPACE)
        yield server


@pytest.fixture
def release(cluster: ApiServer) -> Iterator[Release]:
    """Install the chart as it is, and remove it in the end."""
    made = Release(cluster)
    made.put("install", {})
    yield made
    made.helm("uninstall")


class Release:
    """A release on the API server."""

    def __init__(self, cluster: ApiServer) -> None:
        self._cluster = cluster

    def helm(self, command: str, *more: str | Path, said: str | None = None) -> str:
        """Run one of Helm's commands on it."""
        where = ("--kubeconfig", self._cluster.kubeconfig, "--namespace", NAMESPACE)
        return helm(command, RELEASE, *more, *where, said=said)

    def put(self, command: str, values: Mapping[str, Any]) -> None:
        """Install or upgrade it with these values."""
        self.helm(command, CHART, "--values", "-", said=json.dumps(values))

    def config(self) -> dict[str, Any]:
        """Return what the daemon would read."""
        found: dict[str, Any] = yaml.safe_load(self._cluster.get(CONFIG)["data"]["lakewarden.yaml"])
        return found

    def pod(self) -> dict[str, Any]:
        """Return the pod that the StatefulSet's controller would make, with the claim that it would add."""
        template = self._cluster.get(STATEFUL_SET)["spec"]["template"]
        claimed = {"name": "data", "persistentVolumeClaim": {"claimName": f"data-{RELEASE}-0"}}
        spec = {**template["spec"], "volumes": [*template["spec"]["volumes"], claimed]}
        return {"metadata": {**template["metadata"], "name": f"{RELEASE}-0"}, "spec": spec}


def test_an_upgrade_is_taken_and_a_rollback_takes_it_back(cluster: ApiServer, release: Release) -> None:
    """Only the size of the volume is fixed when it is made; the configuration of a revision comes back with it."""
    before, pod_before = release.config(), release.pod()

    values = yaml.safe_load(FULL.read_text())
    del values["serviceMonitor"]  # its kind is the operator's
    release.put("upgrade", {**values, "data": {}})
    assert release.config()["daemon"]["drain"] == "120s"
    assert release.pod()["spec"]["terminationGracePeriodSeconds"] == 135
    assert release.pod()["metadata"]["annotations"] != pod_before["metadata"]["annotations"]

    release.helm("rollback", "1")
    assert release.config() == before
    assert release.pod() == pod_before
    revisions = json.loads(release.helm("history", "--output", "json"))
    assert [one["status"] for one in revisions] == ["superseded", "superseded", "deployed"]


def test_the_pod_is_let_in_under_the_restricted_level(cluster: ApiServer, release: Release) -> None:
    """What the controller makes of the template passes validation and admission where a bare pod is refused."""
    bare = {"metadata": {"name": "bare"}, "spec": {"containers": [{"name": "bare", "image": "bare:1"}]}}
    refused = cluster.try_pod(NAMESPACE, bare)
    assert refused.status_code == 403
    assert "restricted" in refused.json()["message"]

    admitted = cluster.try_pod(NAMESPACE, release.pod())

    assert admitted.is_success, admitted.text
