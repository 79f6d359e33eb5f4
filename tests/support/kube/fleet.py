"""A release of three replicas in a cluster, on a real PostgreSQL, with fake tables and their writer."""

from __future__ import annotations

import base64
import http.client
import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.doubles.fake.table import FakeTable
from tests.support.helm.chart import CHART, NAMESPACE, RELEASE, helm
from tests.support.kube.attendance import Attendance
from tests.support.kube.cluster import Cluster, volume
from tests.support.kube.writers import LiveWriter
from tests.support.store.postgres import PostgresServer
from tests.support.store.relay import relay_to

LEASE = 30.0
PODS = tuple(f"{RELEASE}-{number}" for number in range(3))
TABLES = 6
KEY = "lwk_of_the_tests_0123456789"
_PASSWORD = "the-password-of-the-tests"
_USER = "keeper"
_API = 8080
_LONGEST_SECONDS = 400


def values(database: str, *, tag: str = "1") -> dict[str, Any]:
    """Return the values of the release."""
    compaction = {"trigger": {"num_commits": 2}}
    tables = [
        {
            "id": f"lake.table_{number}",
            "format": "fake",
            "path": f"/lake/table-{number}",
            "mode": "act",
            "poll": "1s",
            "services": {"compaction": compaction},
        }
        for number in range(TABLES)
    ]
    return {
        "replicaCount": len(PODS),
        "minReadySeconds": int(LEASE / 3),
        "drainSeconds": 10,
        "image": {"repository": "lakewarden", "tag": tag},
        "claims": [{"claim": "lake", "path": "/lake"}],
        "secrets": {
            "files": {
                "database": {"secret": "lakewarden", "key": "database"},
                "operator": {"secret": "lakewarden", "key": "operator"},
            }
        },
        "config": {
            "daemon": {"lease": f"{LEASE:g}s"},
            "database": {
                "url": f"postgresql://{_USER}@db.{NAMESPACE}.svc:5432/{database}",
                "password": {"file": "/run/secrets/lakewarden/database"},
            },
            "access": {
                "keys": [{"name": "tests", "role": "operator", "key": {"file": "/run/secrets/lakewarden/operator"}}]
            },
            "spark": {"default": {"memory": "256m", "slots": 2}},
            "tables": tables,
        },
    }


class Fleet:
    """The release, its tables, and what is seen of them from outside."""

    def __init__(self, cluster: Cluster, server: PostgresServer, database: str, lake: Path) -> None:
        self.cluster = cluster
        self._server = server
        self._database = database
        self._folders = [lake / f"table-{number}" for number in range(TABLES)]
        self.attendance = Attendance(server, database, [f"/lake/{folder.name}" for folder in self._folders])

    def values(self, **more: Any) -> dict[str, Any]:
        """Return the values of the release."""
        return values(PostgresServer.name_of(self._database), **more)

    def helm(self, command: str, *more: str | Path, said: Mapping[str, Any] | None = None) -> str:
        """Run a Helm command on the release. Fails with Helm's complaint."""
        where = ("--kubeconfig", self.cluster.api.kubeconfig, "--namespace", NAMESPACE)
        return helm(
            command, RELEASE, *more, *where, said=None if said is None else json.dumps(said), seconds=_LONGEST_SECONDS
        )

    def put(self, command: str, values: Mapping[str, Any]) -> None:
        """Install or upgrade the release, with its hooks, and wait until every pod is ready."""
        self.helm(command, CHART, "--values", "-", "--wait", "--timeout", f"{_LONGEST_SECONDS}s", said=values)

    def begin(self, command: str, *more: str | Path) -> subprocess.Popen[str]:
        """Start a Helm command on the release, which waits until every pod is ready."""
        where = (
            "--kubeconfig",
            self.cluster.api.kubeconfig,
            "--namespace",
            NAMESPACE,
            "--wait",
            "--timeout",
            f"{_LONGEST_SECONDS}s",
        )
        whole = ["helm", command, RELEASE, *map(str, (*more, *where))]
        return subprocess.Popen(whole, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def ready(self) -> list[str]:
        """Return the pods that are ready, as the API has it."""
        return sorted(name for name, pod in self.cluster.pods(RELEASE).items() if is_ready(pod))

    def until_settled(self) -> None:
        """Return when all pods are ready, and each has its part of the tables."""

        def settled() -> bool:
            owners = list(self.attendance.owners.values())
            return self.ready() == list(PODS) and all(owners.count(pod) == TABLES // len(PODS) for pod in PODS)

        self.cluster.until(settled)

    def ask(self, pod: str, path: str) -> Any:
        """Return what the API of a pod answers, asked from beside it."""
        address = self.cluster.on_node(pod).address
        assert address is not None
        with self.cluster.network.here.inside():
            connection = http.client.HTTPConnection(address, _API, timeout=30)
            connection.request("GET", path, headers={"X-API-Key": KEY})
            answer = connection.getresponse()
            said = json.loads(answer.read())
        assert answer.status == 200, said
        return said

    def tables_of_replicas(self, pod: str) -> list[int]:
        """Return how many tables each living replica has, as a pod knows it."""
        return [one["tables"] for one in self.ask(pod, "/v1/replicas")["items"] if one["alive"]]

    def compacted(self) -> Mapping[str, int]:
        """Return how often each table was compacted, by its own timeline."""
        return {folder.name: len(_completed(folder)) for folder in self._folders}

    def compacted_twice(self) -> list[str]:
        """Return the log files that two completed compactions have merged: two executors of one plan, or two plans."""
        twice = []
        for folder in self._folders:
            merged = [name for plan in _completed(folder) for name in json.loads(plan.read_text())["files"]]
            twice += [f"{folder.name}/{name}" for name in set(merged) if merged.count(name) > 1]
        return twice

    @contextmanager
    def written(self) -> Iterator[LiveWriter]:
        """Write to every table inside the `with` block. At its end each table is compacted once more, by its owner. No
        write has failed, every row is there, and nothing was compacted twice.
        """
        writer = LiveWriter(self._folders)
        writer.start()
        try:
            yield writer
            before = self.compacted()
            self.cluster.until(
                lambda: all(now > before[table] for table, now in self.compacted().items()), within=_LONGEST_SECONDS
            )
        finally:
            writer.end()
        assert writer.failures == []
        assert writer.found() == writer.expected
        assert self.compacted_twice() == []


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Whether a pod is ready, and not about to end, as the API has it."""
    conditions = {one["type"]: one["status"] for one in pod["status"].get("conditions", [])}
    return conditions.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]


@contextmanager
def installed_fleet(cluster: Cluster, server: PostgresServer, folder: Path) -> Iterator[Fleet]:
    """Install the release, and keep it for as long as the bracket is open."""
    lake = folder / "lake"
    for number in range(TABLES):
        FakeTable.create(lake / f"table-{number}")
    database = server.make_database()
    name = PostgresServer.name_of(database)
    with server.guarded_user(_USER, password=_PASSWORD), _reached(cluster, server):
        server.execute("postgres", f"ALTER DATABASE {name} OWNER TO {_USER}")
        try:
            _prepare(cluster, lake, folder)
            fleet = Fleet(cluster, server, database, lake)
            fleet.put("install", fleet.values())
            fleet.attendance.start()
            try:
                yield fleet
            finally:
                fleet.attendance.end()
            fleet.helm("uninstall", "--no-hooks", "--wait")
            cluster.until(lambda: not cluster.pods(RELEASE))
        finally:
            server.execute("postgres", f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def _reached(cluster: Cluster, server: PostgresServer) -> Iterator[None]:
    """Let the pods reach the database under the name of a Service."""
    sandbox = cluster.network.sandbox("db")
    name = {"metadata": {"name": "db", "labels": {"kubernetes.io/service-name": "db"}}}
    cluster.api.make(f"/api/v1/namespaces/{NAMESPACE}/services", {**name, "spec": {"ports": [{"port": 5432}]}})
    slices = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices"
    endpoints = {"addressType": "IPv4", "endpoints": [{"addresses": [sandbox.address]}], "ports": [{"port": 5432}]}
    cluster.api.make(slices, {**name, **endpoints})
    with relay_to(server.socket, listener=sandbox.listener(5432)):
        yield
    sandbox.close()


def _prepare(cluster: Cluster, lake: Path, folder: Path) -> None:
    """Make what the release needs and does not have itself: the Secret, the volumes and the claim of the tables."""
    api = cluster.api
    secret = {"database": _PASSWORD, "operator": KEY}
    data = {name: base64.b64encode(text.encode()).decode() for name, text in secret.items()}
    api.make(f"/api/v1/namespaces/{NAMESPACE}/secrets", {"metadata": {"name": RELEASE}, "data": data})
    for number in range(len(PODS)):
        api.make("/api/v1/persistentvolumes", volume(f"data-{number}", folder / f"data-{number}"))
    its = {"namespace": NAMESPACE, "name": "lake"}
    api.make("/api/v1/persistentvolumes", volume("lake", lake, claim=its))
    asked = {"accessModes": ["ReadWriteMany"], "volumeName": "lake", "resources": {"requests": {"storage": "5Gi"}}}
    api.make(f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims", {"metadata": {"name": "lake"}, "spec": asked})


def _completed(folder: Path) -> Sequence[Path]:
    """Return the plans of the completed compactions of a table."""
    timeline = folder / "timeline"
    done = {path.name.split(".")[0] for path in timeline.glob("*.compaction.completed")}
    return [path for path in timeline.glob("*.compaction.requested") if path.name.split(".")[0] in done]
