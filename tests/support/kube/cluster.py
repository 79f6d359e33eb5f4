"""A cluster in the tests: a real API server, its controllers and its scheduler, and nodes that stand in for kubelets.

What is not real: the kubelet (`nodes.py`), the network (the name of a Service leads to its ready pods, and there are no
policies), the image, which is this checkout, and limits of memory and CPU, which are not there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakewarden.demo.daemon import Child
from tests.support.helm.kubernetes import ApiServer, running_api_server
from tests.support.kube.network import Network
from tests.support.kube.nodes import Nodes
from tests.support.kube.pods import PodOnNode
from tests.support.waiting import HANGS

NOTICED_SECONDS = 20
"""After so long without a heartbeat a node counts as lost. Kubernetes' default is 50 s."""


class Cluster:
    """Asks the cluster, and does to it what operators and failures do."""

    def __init__(self, api: ApiServer, nodes: Nodes, network: Network, namespace: str) -> None:
        self.api = api
        self.nodes = nodes
        self.network = network
        self._namespace = namespace

    def pods(self, release: str) -> dict[str, dict[str, Any]]:
        """Return the pods of a release by their names, as the API has them."""
        asked = f"/api/v1/namespaces/{self._namespace}/pods?labelSelector=app.kubernetes.io%2Fname%3D{release}"
        return {pod["metadata"]["name"]: pod for pod in self.api.get(asked)["items"]}

    def on_node(self, name: str) -> PodOnNode:
        """Return the pod that the API has under this name, on its node. Fails if it is on none."""
        uid = self.api.get(f"{self._path(name)}")["metadata"]["uid"]
        found: PodOnNode = self.until(lambda: self.nodes.pod(uid))
        return found

    def node_of(self, name: str) -> str:
        """Return the node of a pod."""
        return str(self.api.get(self._path(name))["spec"]["nodeName"])

    def evict(self, name: str) -> bool:
        """Ask for the eviction of a pod, as a drain does. Return False if a budget forbids it now."""
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        try:
            self.api.make(f"{self._path(name)}/eviction", eviction)
        except httpx.HTTPStatusError as error:
            if error.response.status_code != 429:
                raise
            return False
        return True

    def until(self, what: Callable[[], Any], *, within: float = HANGS) -> Any:
        """Return what `what` returns once it is true. Fails with the last words of the pods."""
        deadline = time.monotonic() + within
        while not (found := what()):
            if time.monotonic() > deadline:
                pytest.fail(f"it did not come true:\n{self.nodes.last_words()}")
            time.sleep(0.1)
        return found

    def _path(self, pod: str) -> str:
        return f"/api/v1/namespaces/{self._namespace}/pods/{pod}"


@contextmanager
def running_cluster(folder: Path, *, namespace: str, nodes: int, images: frozenset[str]) -> Iterator[Cluster]:
    """Run a cluster with a namespace of the restricted level, for as long as the bracket is open."""
    with running_api_server(folder, controlled=True) as api, _controllers(folder, api):
        network = Network()
        kubelets = Nodes(api, network, folder, images=images)
        try:
            for number in range(nodes):
                kubelets.add(f"node-{number}")
            api.make_restricted_namespace(namespace)
            kubelets.start()
            yield Cluster(api, kubelets, network, namespace)
        finally:
            kubelets.close()
            network.close()


@contextmanager
def _controllers(folder: Path, api: ApiServer) -> Iterator[None]:
    """Run the controllers and the scheduler of Kubernetes."""
    common = [f"--kubeconfig={api.kubeconfig}", "--leader-elect=false", "--secure-port=0"]
    manager = ["kube-controller-manager", *common, f"--service-account-private-key-file={folder / 'sa.key'}"]
    manager += [f"--root-ca-file={api.authority}", "--use-service-account-credentials=false"]
    manager += ["--node-monitor-period=1s", f"--node-monitor-grace-period={NOTICED_SECONDS}s"]
    scheduler = ["kube-scheduler", *common]
    children: list[Child] = []
    try:
        for command in (manager, scheduler):
            children.append(Child(command[0], command, log=folder / f"{command[0]}.log"))
        yield
    finally:
        for child in children:
            child.end(grace=timedelta(seconds=2))


def volume(name: str, path: Path, *, claim: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return a volume that is a folder of this machine, on every node: for one pod, or for all pods of one claim."""
    path.mkdir(parents=True, exist_ok=True)
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "Exists"}]}]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "5Gi"},
            "accessModes": ["ReadWriteMany" if claim else "ReadWriteOncePod"],
            "local": {"path": str(path)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
            **({"claimRef": dict(claim)} if claim else {}),
        },
    }
