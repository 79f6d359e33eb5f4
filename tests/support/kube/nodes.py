"""Nodes without machines. Each is registered, sends heartbeats, and runs the pods that are bound to it as processes.

A *lost* node says nothing more, and hears nothing: its pods live on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from tests.support.helm.kubernetes import ApiServer
from tests.support.kube.network import Network
from tests.support.kube.pods import PodOnNode
from tests.support.kube.running import timestamp

_TICK_SECONDS = 0.2
_HEARTBEAT_SECONDS = 2.0
_RESOURCES = {"cpu": "16", "memory": "64Gi", "pods": "50", "ephemeral-storage": "500Gi"}


class Node:
    """One node, and the pods on it."""

    def __init__(self, name: str, api: ApiServer, network: Network, folder: Path, images: Collection[str]) -> None:
        self.name = name
        self.api = api
        self.network = network
        self.hosts = folder / "hosts"
        self.folder = folder / name
        self.folder.mkdir()
        self.lost = False
        self.pods: dict[str, PodOnNode] = {}
        self._images = images

    def has_image(self, image: str) -> bool:
        """Whether the registry has an image."""
        return image in self._images

    def register(self) -> None:
        """Make the node known, as the kubelet does."""
        labels = {"kubernetes.io/hostname": self.name, "kubernetes.io/os": "linux"}
        self.api.make("/api/v1/nodes", {"metadata": {"name": self.name, "labels": labels}})
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": timestamp()}
        status = {"capacity": _RESOURCES, "allocatable": _RESOURCES, "conditions": [ready]}
        self.api.patch(f"/api/v1/nodes/{self.name}/status", {"status": status})

    def beat(self) -> None:
        """Renew the heartbeat."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self.name},
            "spec": {"holderIdentity": self.name, "leaseDurationSeconds": 40, "renewTime": now},
        }
        self.api.apply("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", lease)

    def hear(self, pods: Mapping[str, Mapping[str, Any]]) -> None:
        """Start what is bound to the node, and tell its pods what the API says of them."""
        for uid, pod in pods.items():
            if uid not in self.pods and pod["status"].get("phase") not in ("Succeeded", "Failed"):
                self.pods[uid] = PodOnNode(self, pod)
                self.pods[uid].start()
        for uid, running in list(self.pods.items()):
            running.seen(pods.get(uid))
            if uid not in pods and not running.is_alive():
                del self.pods[uid]


class Nodes(threading.Thread):
    """Every node of the cluster, and the names of its Services."""

    def __init__(self, api: ApiServer, network: Network, folder: Path, *, images: Collection[str]) -> None:
        super().__init__(name="nodes", daemon=True)
        self._api = api
        self._network = network
        self._folder = folder / "nodes"
        self._folder.mkdir()
        (self._folder / "hosts").mkdir()
        self._images = images
        self._nodes: dict[str, Node] = {}
        self._over = threading.Event()
        self._names = ""

    def add(self, name: str) -> None:
        """Add a node."""
        node = Node(name, self._api, self._network, self._folder, self._images)
        node.beat()
        node.register()
        self._nodes[name] = node

    def lose(self, name: str) -> None:
        """Let the node lose its connection to the API. Its pods live on."""
        self._nodes[name].lost = True

    def find(self, name: str) -> None:
        """Let a lost node have its connection again."""
        self._nodes[name].lost = False

    def pod(self, uid: str) -> PodOnNode | None:
        """Return a pod that is on a node."""
        return next((node.pods[uid] for node in self._nodes.values() if uid in node.pods), None)

    def last_words(self) -> str:
        """Return the last lines of every pod's logs."""
        pods = [pod for node in self._nodes.values() for pod in node.pods.values()]
        return "\n".join(f"--- {pod.name}: {pod.phase}\n{pod.last_words()}" for pod in pods)

    def run(self) -> None:
        """Do the work of every kubelet until the cluster is closed."""
        beat_at = 0.0
        while not self._over.wait(_TICK_SECONDS):
            with suppress(httpx.HTTPError):  # asked again in a moment
                self._turn(beat=time.monotonic() >= beat_at)
                beat_at = max(
                    beat_at, time.monotonic() + _HEARTBEAT_SECONDS if time.monotonic() >= beat_at else beat_at
                )

    def close(self) -> None:
        """End every pod."""
        self._over.set()
        if self.is_alive():
            self.join(timeout=60)
        for pod in [pod for node in self._nodes.values() for pod in node.pods.values()]:
            pod.close()

    def _turn(self, *, beat: bool) -> None:
        found = self._api.get("/api/v1/pods")["items"]
        for node in self._nodes.values():
            if node.lost:
                continue
            mine = {pod["metadata"]["uid"]: pod for pod in found if pod["spec"].get("nodeName") == node.name}
            node.hear(mine)
            if beat:
                node.beat()
        self._name_pods()

    def _name_pods(self) -> None:
        """Write the names of Services and of their pods for all pods, in place of a name service."""
        slices = self._api.get("/apis/discovery.k8s.io/v1/endpointslices")["items"]
        names = "127.0.0.1 localhost\n" + "".join(sorted(_names(slices)))
        if names != self._names:
            new = self._folder / "hosts" / "new"
            new.write_text(names)
            new.rename(self._folder / "hosts" / "hosts")
            self._names = names


def _names(slices: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for one in slices:
        service = one["metadata"].get("labels", {}).get("kubernetes.io/service-name")
        if service is None or one["addressType"] != "IPv4":
            continue
        name = f"{service}.{one['metadata']['namespace']}.svc"
        for endpoint in one.get("endpoints") or []:
            [address] = endpoint["addresses"]
            if endpoint.get("conditions", {}).get("ready", True):
                yield f"{address} {name}\n"
            if endpoint.get("hostname"):
                yield f"{address} {endpoint['hostname']}.{name}\n"
