"""One pod on a node, from its binding to its end. Its status is in the API while the node has a connection."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import httpx

from tests.support.helm.kubernetes import ApiServer
from tests.support.kube.network import Network, Sandbox
from tests.support.kube.running import Prober, Running, timestamp
from tests.support.kube.volumes import Volumes

_TICK_SECONDS = 0.1
_PATCH = "application/strategic-merge-patch+json"


class Host(Protocol):
    """What a pod has of its node."""

    api: ApiServer
    network: Network
    hosts: Path
    folder: Path
    lost: bool

    def has_image(self, image: str) -> bool:
        """Whether the registry has an image."""
        ...


class PodOnNode(threading.Thread):
    """Runs one pod. `seen` tells it what the API says of the pod, or None if it is gone there."""

    def __init__(self, host: Host, pod: Mapping[str, Any]) -> None:
        super().__init__(name=str(pod["metadata"]["name"]), daemon=True)
        self.uid = str(pod["metadata"]["uid"])
        self._host = host
        self._pod = pod
        self._path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{self.name}"
        self._folder = host.folder / self.uid
        self._folder.mkdir()
        self._volumes = Volumes(host.api, pod, self._folder / "volumes")
        self._begun = timestamp()
        self._sandbox: Sandbox | None = None
        self._waits_for = "ContainerCreating"
        self._initial = [self._container(one) for one in pod["spec"].get("initContainers", [])]
        self.containers = [self._container(one) for one in pod["spec"]["containers"]]
        self._probers: list[Prober] = []
        self._told: Any = None
        self._conditions: dict[str, dict[str, str]] = {}
        self._latest: Mapping[str, Any] | None = pod
        self._unhealthy: set[str] = set()
        self._over = threading.Event()
        self.phase = "Pending"

    @property
    def address(self) -> str | None:
        """Its address in the network of the pods."""
        return None if self._sandbox is None else self._sandbox.address

    @property
    def sandbox(self) -> Sandbox:
        """Its network."""
        assert self._sandbox is not None
        return self._sandbox

    def seen(self, pod: Mapping[str, Any] | None) -> None:
        """Take note of what the API says now."""
        self._latest = pod

    def last_words(self) -> str:
        """Return the last lines of every log."""
        logs = [one.log for one in (*self._initial, *self.containers) if one.log.exists()]
        return "\n".join(line for log in logs for line in log.read_text(errors="replace").splitlines()[-20:])

    def close(self) -> None:
        """End everything of the pod at once, as a power cut does. The API is not told."""
        self._over.set()
        self.join(timeout=30)
        self._remove()

    def run(self) -> None:
        """Carry the pod from its start to its end."""
        while not self._over.wait(_TICK_SECONDS):
            if self._is_to_end():
                self._end()
                return
            try:
                self._carry_on()
            except (httpx.HTTPStatusError, KeyError) as error:
                self._waits_for = f"CreateContainerConfigError: {error}"
            except httpx.TransportError:
                continue  # the API server is away: what runs goes on
            self._tell()

    # -- the life

    def _carry_on(self) -> None:
        if self.phase in ("Succeeded", "Failed"):
            return
        if missing := [str(one.spec["image"]) for one in (*self._initial, *self.containers) if not self._has(one)]:
            self._waits_for = f"ErrImagePull: {missing[0]}"
            return
        if self._sandbox is None:
            (self._folder / "volumes").mkdir(exist_ok=True)
            self._volumes.make()
            self._sandbox = self._host.network.sandbox(self.name)
        for one in self._initial:
            if one.exit_code == 0:
                continue
            self._start_or_restart(one)
            return
        for one in self.containers:
            self._start_or_restart(one)
        self._judge()

    def _start_or_restart(self, one: Running) -> None:
        assert self._sandbox is not None
        if one.name in self._unhealthy:
            self._unhealthy.discard(one.name)
            one.ready = one.started = False
            self._halt([one], self._pod["spec"]["terminationGracePeriodSeconds"])
        if one.runs:
            return
        if one.exit_code is None:
            one.start(self._sandbox, self._host.hosts)
            if one in self.containers:
                self._probe(one)
        elif self._pod["spec"]["restartPolicy"] == "Always" or (
            self._pod["spec"]["restartPolicy"] == "OnFailure" and one.exit_code != 0
        ):
            one.restart_when_due(self._sandbox, self._host.hosts)

    def _probe(self, one: Running) -> None:
        address = self.sandbox.address
        prober = Prober(one, address, self._host.network.here, lambda: self._note(one))
        self._probers.append(prober)
        prober.start()

    def _note(self, one: Running) -> None:
        """Take note of a probe that failed for good. The kubelet of a lost node would still reach its pods."""
        if not self._host.lost:
            self._unhealthy.add(one.name)

    def _judge(self) -> None:
        codes = [one.exit_code for one in self.containers]
        policy = self._pod["spec"]["restartPolicy"]
        if policy == "Always" or None in codes or (policy == "OnFailure" and any(codes)):
            self.phase = "Running"
        else:
            self.phase = "Failed" if any(codes) else "Succeeded"

    def _has(self, one: Running) -> bool:
        return self._host.has_image(str(one.spec["image"]))

    # -- the end

    def _is_to_end(self) -> bool:
        if self._host.lost:
            return False
        return self._latest is None or "deletionTimestamp" in self._latest["metadata"]

    def _end(self) -> None:
        deleted = self._latest
        grace = self._pod["spec"]["terminationGracePeriodSeconds"]
        if deleted is not None:
            grace = deleted["metadata"]["deletionGracePeriodSeconds"]
        self._halt(self.containers, grace)
        if self._over.is_set() or self._host.lost:
            return  # from now on nobody knows of it
        self._tell()
        for prober in self._probers:
            prober.end()
        with suppress(httpx.HTTPError):
            self._host.api.delete(self._path, gracePeriodSeconds=0, preconditions={"uid": self.uid})
        self._remove()

    def _halt(self, containers: list[Running], grace: float) -> None:
        """Send SIGTERM, and SIGKILL after the grace. The status is told meanwhile."""
        for one in containers:
            one.ask_to_end()
        deadline = time.monotonic() + grace
        while (
            any(one.runs for one in containers) and time.monotonic() < deadline and not self._over.wait(_TICK_SECONDS)
        ):
            self._tell()
        for one in containers:
            one.kill()

    def _remove(self) -> None:
        for prober in self._probers:
            prober.end()
        for one in (*self._initial, *self.containers):
            one.kill()
        if self._sandbox is not None:
            self._sandbox.close()
        shutil.rmtree(self._folder / "volumes", ignore_errors=True)

    # -- the status

    def _tell(self) -> None:
        """Send the status if it has changed. A lost node tells nothing."""
        if self._host.lost or self._latest is None:
            return
        status = self._status()
        if status == self._told:
            return
        with suppress(httpx.HTTPError):
            self._host.api.patch(f"{self._path}/status", {"metadata": {"uid": self.uid}, "status": status}, kind=_PATCH)
            self._told = status

    def _status(self) -> dict[str, Any]:
        initialized = all(one.exit_code == 0 for one in self._initial)
        ready = self.phase == "Running" and all(one.ready and one.runs for one in self.containers)
        for kind, holds in {"Initialized": initialized, "ContainersReady": ready, "Ready": ready}.items():
            if self._conditions.get(kind, {}).get("status") != str(holds):
                self._conditions[kind] = {"type": kind, "status": str(holds), "lastTransitionTime": timestamp()}
        found: dict[str, Any] = {
            "phase": self.phase,
            "startTime": self._begun,
            "hostIP": "10.244.0.1",
            "conditions": list(self._conditions.values()),
            "containerStatuses": [self._of(one) for one in self.containers],
            "initContainerStatuses": [self._of(one) for one in self._initial],
        }
        if self._sandbox is not None:
            found |= {"podIP": self._sandbox.address, "podIPs": [{"ip": self._sandbox.address}]}
        return found

    def _of(self, one: Running) -> dict[str, Any]:
        status = one.status()
        if "waiting" in status["state"]:
            reason, _, message = self._waits_for.partition(": ")
            status["state"] = {"waiting": {"reason": reason, "message": message}}
        return status

    def _container(self, spec: Mapping[str, Any]) -> Running:
        return Running(spec, self._pod, self._volumes, self._folder)
