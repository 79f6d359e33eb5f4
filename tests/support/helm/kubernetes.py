"""A real Kubernetes API server on a real etcd, without controllers and kubelets: objects are judged, and not run."""

from __future__ import annotations

import json
import secrets
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx

from lakewarden.demo.daemon import Child, free_port

APPLY = "application/apply-patch+yaml"


class ApiServer:
    """Asks an API server as its administrator."""

    def __init__(self, folder: Path, port: int, token: str) -> None:
        self.authority = folder / "certificates" / "apiserver.crt"
        self.url = f"https://127.0.0.1:{port}"
        self.kubeconfig = folder / "kubeconfig"
        cluster = {"server": self.url, "insecure-skip-tls-verify": True}
        named = {"name": "here"}
        self.kubeconfig.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{**named, "cluster": cluster}],
                    "users": [{**named, "user": {"token": token}}],
                    "contexts": [{**named, "context": {"cluster": "here", "user": "here"}}],
                    "current-context": "here",
                }
            )
        )
        self._client = httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {token}"},
            verify=False,  # its certificate was made by itself a moment ago
            timeout=30,
        )

    def ready(self) -> bool:
        """Whether it answers and has made the namespaces that are always there."""
        with suppress(httpx.TransportError):
            return self._client.get("/readyz").is_success and self._client.get("/api/v1/namespaces/default").is_success
        return False

    def get(self, path: str) -> dict[str, Any]:
        """Return an object. Raises httpx.HTTPStatusError where there is none."""
        answer = self._client.get(path)
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
        return found

    def try_pod(self, namespace: str, pod: Mapping[str, Any]) -> httpx.Response:
        """Apply a pod without keeping it, and return the answer: validation and admission are those of a real one."""
        path = f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}"
        return self._client.patch(
            path,
            params={"dryRun": "All", "fieldManager": "test"},
            headers={"Content-Type": APPLY},
            content=json.dumps({"apiVersion": "v1", "kind": "Pod", **pod}),
        )

    def make_restricted_namespace(self, name: str) -> None:
        """Make a namespace in which only pods of the restricted security level are let in."""
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        answer = self._client.post("/api/v1/namespaces", json={"metadata": {"name": name, "labels": labels}})
        if answer.status_code != 409:
            answer.raise_for_status()

    def apply(self, path: str, made: Mapping[str, Any]) -> None:
        """Make an object, or replace it."""
        answer = self._client.patch(
            f"{path}/{made['metadata']['name']}",
            params={"fieldManager": "test", "force": "true"},
            headers={"Content-Type": APPLY},
            content=json.dumps(made),
        )
        answer.raise_for_status()

    def make(self, path: str, made: Mapping[str, Any]) -> None:
        """Make a new object, or tell an object what a subresource takes. Raises httpx.HTTPStatusError."""
        self._client.post(path, json=made).raise_for_status()

    def patch(self, path: str, changed: Mapping[str, Any], *, kind: str = "application/merge-patch+json") -> None:
        """Change an object. Raises httpx.HTTPStatusError."""
        answer = self._client.patch(path, headers={"Content-Type": kind}, content=json.dumps(changed))
        answer.raise_for_status()

    def delete(self, path: str, **options: Any) -> None:
        """Delete an object. Raises httpx.HTTPStatusError."""
        body = {"apiVersion": "v1", "kind": "DeleteOptions", **options}
        self._client.request("DELETE", path, json=body).raise_for_status()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


@contextmanager
def running_api_server(folder: Path, *, controlled: bool = False) -> Iterator[ApiServer]:
    """Run etcd and an API server for as long as the bracket is open. `controlled`: there will be controllers."""
    store, peers, port, token = free_port(), free_port(), free_port(), secrets.token_hex(16)
    (folder / "tokens.csv").write_text(f'{token},admin,1,"system:masters"\n')
    subprocess.run(["openssl", "genrsa", "-out", folder / "sa.key", "2048"], check=True, capture_output=True)
    etcd = Child("etcd", _etcd(folder, store, peers), log=folder / "etcd.log")
    try:
        api = Child(
            "kube-apiserver", _api_server(folder, store, port, controlled=controlled), log=folder / "kube-apiserver.log"
        )
        try:
            server = ApiServer(folder, port, token)
            deadline = time.monotonic() + 120
            while not server.ready():
                assert api.exit_code is None, api.last_words(20)
                assert time.monotonic() < deadline, api.last_words(20)
                time.sleep(0.2)
            yield server
            server.close()
        finally:
            api.end(grace=timedelta(seconds=5))
    finally:
        etcd.end(grace=timedelta(seconds=5))


def _etcd(folder: Path, port: int, peers: int) -> list[str]:
    here, to_peers = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peers}"
    command = ["etcd", "--data-dir", str(folder / "etcd"), "--unsafe-no-fsync"]
    command += ["--listen-client-urls", here, "--advertise-client-urls", here]
    command += ["--listen-peer-urls", to_peers, "--initial-advertise-peer-urls", to_peers]
    return [*command, "--initial-cluster", f"default={to_peers}"]


def _api_server(folder: Path, store: int, port: int, *, controlled: bool) -> list[str]:
    key = folder / "sa.key"
    command = [
        "kube-apiserver",
        f"--etcd-servers=http://127.0.0.1:{store}",
        f"--cert-dir={folder / 'certificates'}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-signing-key-file={key}",
        f"--service-account-key-file={key}",
        f"--token-auth-file={folder / 'tokens.csv'}",
        "--authorization-mode=RBAC",
    ]
    # Without a controller, nothing makes the accounts that this one would wait for.
    return command if controlled else [*command, "--disable-admission-plugins=ServiceAccount"]
