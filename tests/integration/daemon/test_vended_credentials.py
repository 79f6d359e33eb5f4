"""A started daemon serves a table whose files only the catalog lets it at: a real REST catalog, a real S3 server."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table

from lakewarden.executors.worker import bundles
from tests.support.catalogs.iceberg_rest import iceberg_rest
from tests.support.catalogs.renewing_relay import renewing
from tests.support.catalogs.vending_catalog import VendingCatalog
from tests.support.daemon.daemon_process import TABLE, DaemonProcess
from tests.support.doubles import fault_points
from tests.support.object_stores.s3_server import ACCESS_KEY, BUCKET, SECRET_KEY, S3Server

pytestmark = pytest.mark.spark

LIFE = 30
"""Seconds for which short-lived credentials are of use."""

IDENTIFIER = "sales.eu.orders"
DELETING = {
    "clean": {"trigger": {"num_commits": 1}, "options": {"max_snapshot_age": "1s", "min_snapshots_to_keep": 1}},
    "orphans": {"trigger": {"time_elapsed": "5s"}, "options": {"unknown_for": "0s"}},
}
"""Services with a plan beside the table. The table buckets of SeaweedFS take no file that Iceberg does not name."""

AT_ONCE = {"longest_outage": "0s", "flink_restores": "0s", "quiet_for": "0s", "distance": "0s"}
ROW = pa.table({"id": pa.array([1], pa.int64())})
SERVICES = {
    "compaction": {"trigger": {"num_commits": 3}, "options": {"min_input_files": 2}},
    "archive": {"trigger": {"num_commits": 3}, "options": {"small_manifests": 2}},
    "table_stats": {"trigger": {"num_commits": 3}},
}


@dataclasses.dataclass(frozen=True)
class Vended:
    """A table of the catalog, as the configuration says it."""

    server: S3Server
    settings: Mapping[str, Any]
    identifier: str = IDENTIFIER

    @property
    def configured(self) -> Mapping[str, Any]:
        """Return its entry under tables."""
        return {"format": "iceberg", "path": f"catalog://lake/{self.identifier}", "options": AT_ONCE}

    @property
    def catalogs(self) -> Mapping[str, Any]:
        """Return the catalog."""
        return {"lake": {"format": "iceberg", **self.settings}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VendingCatalog]:
    bundles.fetch(["iceberg"], needs=["aws"])
    server = VendingCatalog(tmp_path_factory.mktemp("vending"), life=900)
    server.start()
    for namespace in (("sales",), ("sales", "eu")):
        server.client().create_namespace(namespace)
    yield server
    server.stop()


@pytest.fixture(autouse=True)
def _no_keys_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)


def _written(server: VendingCatalog, commits: int) -> Table:
    """Return the table, made anew, with so many commits of a row each."""
    client = server.client()
    if client.table_exists(IDENTIFIER):
        client.drop_table(IDENTIFIER)
    schema = pa.schema([("id", pa.int64()), ("day", pa.string())])
    table: Table = client.create_table(IDENTIFIER, schema)
    for number in range(commits):
        table.append(pa.table({"id": [number], "day": ["monday"]}, schema=schema))
    return table


@pytest.mark.parametrize("way_in", ["oauth", "sigv4"])
def test_files_are_rewritten_with_what_the_catalog_hands_out(
    way_in: str, server: VendingCatalog, daemon_of: Callable[..., DaemonProcess]
) -> None:
    """No row is lost. The daemon has no credentials for the bucket, and shows none of those that it was handed."""
    table = _written(server, 6)
    settings = server.settings() if way_in == "oauth" else server.settings(credential=None, sigv4=server.sigv4)
    daemon = daemon_of(Vended(server, settings), SERVICES, formats=["iceberg"])
    daemon.start()

    for service in SERVICES:
        daemon.until(partial(_succeeded, daemon, service))

    assert not [run for run in daemon.get("/v1/runs")["items"] if run["state"] == "FAILED"]
    assert sorted(table.refresh().scan().to_arrow().column("id").to_pylist()) == [0, 1, 2, 3, 4, 5]
    shown = daemon.log.read_text() + "".join(log.read_text() for log in daemon.log.parent.rglob("*.log"))
    shown += str(daemon.get("/v1/runs")) + str(daemon.get(f"/v1/tables/{TABLE}"))
    assert "ASIA" not in shown  # each key that the token service issues begins so
    assert "x-amz-security-token" not in shown.lower()


def test_a_table_bucket_refuses_the_plan_of_a_clean_and_the_run_names_the_remedy(
    server: VendingCatalog, daemon_of: Callable[..., DaemonProcess]
) -> None:
    """The bucket takes no file that Iceberg does not name. The run is not made again until an operator acts, and no
    row is lost.
    """
    table = _written(server, 6)
    daemon = daemon_of(Vended(server, server.settings()), {"clean": DELETING["clean"]}, formats=["iceberg"])
    daemon.start()

    [failed] = daemon.until(lambda: [run for run in daemon.runs("clean") if run["state"] == "FAILED"])

    assert "in a table bucket (S3 Tables), remove its clean and orphans policies" in failed["outcome"]
    assert sorted(table.refresh().scan().to_arrow().column("id").to_pylist()) == [0, 1, 2, 3, 4, 5]
    daemon.until(lambda: "in quarantine" in str(daemon.get(f"/v1/tables/{TABLE}")["services"]["clean"]["decision"]))


def test_files_are_deleted_with_what_the_catalog_hands_out(
    s3_server: S3Server, daemon_of: Callable[..., DaemonProcess], tmp_path: Path
) -> None:
    """Clean and orphans list, plan and delete in an ordinary bucket. Here the catalog is a small one of the tests, and
    its credentials have no end.
    """
    bundles.fetch(["iceberg"], needs=["aws"])
    s3_server.start()
    keys = {
        "s3.endpoint": s3_server.endpoint,
        "s3.access-key-id": ACCESS_KEY,
        "s3.secret-access-key": SECRET_KEY,
        "s3.path-style-access": "true",
        "client.region": "us-east-1",
    }
    place = f"s3://{BUCKET}/{tmp_path.name}"
    files = {**keys, "warehouse": place, "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO"}
    with iceberg_rest(tmp_path, files=files) as rest:
        rest.handed_out = {"config": {}, "storage-credentials": [{"prefix": place, "config": keys}]}
        table = rest.catalog.create_table("sales.orders", ROW.schema)
        for _ in range(6):
            table.append(ROW)
        before = _data_files(s3_server, tmp_path.name)
        settings = {"type": "rest", "uri": rest.uri, "access": "vended"}
        configured = Vended(s3_server, settings, identifier="sales.orders")
        daemon = daemon_of(configured, {"compaction": SERVICES["compaction"], **DELETING}, formats=["iceberg"])
        daemon.start()

        daemon.until(lambda: _succeeded(daemon, "compaction"))
        table.refresh().append(ROW)  # a clean counts the commits of writers
        daemon.until(lambda: not before & _data_files(s3_server, tmp_path.name))
        daemon.until(lambda: _succeeded(daemon, "clean"))
        daemon.until(
            lambda: any(run["state"] in {"SUCCEEDED", "YIELDED"} for run in daemon.runs("orphans")), within=240
        )
        assert not [run for run in daemon.get("/v1/runs")["items"] if run["state"] == "FAILED"]
        assert rest.catalog.load_table("sales.orders").scan().to_arrow().num_rows == 7


def _data_files(server: S3Server, folder: str) -> set[str]:
    return set(server.files().glob(f"{BUCKET}/{folder}/**/*.parquet"))


def test_a_run_that_outlives_its_credentials_is_given_new_ones(
    server: VendingCatalog, daemon_of: Callable[..., DaemonProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They end between the writing of the files and the commit. Iceberg's client asks where the catalog says, and so
    does our own reader.
    """
    table = _written(server, 6)
    delay = {"point": "executed", "act": "delay", "seconds": LIFE + 10, "service": "compaction"}
    monkeypatch.setenv(fault_points.VARIABLE, json.dumps([delay]))
    with renewing(server.uri, life=LIFE) as relay:
        settings = server.settings(uri=relay.uri, oauth2_server_uri=f"{server.uri}/v1/oauth/tokens")
        daemon = daemon_of(Vended(server, settings), {"compaction": SERVICES["compaction"]}, formats=["iceberg"])
        daemon.start()
        daemon.until(lambda: _succeeded(daemon, "compaction"))

    assert max(relay.renewals) - min(relay.renewals) > LIFE
    assert [run["state"] for run in daemon.runs("compaction")] == ["SUCCEEDED"]
    assert table.refresh().scan().to_arrow().num_rows == 6


def test_a_table_of_a_catalog_that_is_not_asked_is_hindered_by_name(
    server: VendingCatalog, daemon_of: Callable[..., DaemonProcess]
) -> None:
    """With credentials of our own, which open nothing, the reason names the setting that would."""
    _written(server, 1)
    daemon = daemon_of(Vended(server, server.settings(access="storage")), {**SERVICES, **DELETING}, formats=["iceberg"])
    daemon.start()

    daemon.until(lambda: "catalogs.lake.access: vended" in str(daemon.get(f"/v1/tables/{TABLE}")))
    assert not daemon.get("/v1/runs")["items"]


def _succeeded(daemon: DaemonProcess, service: str) -> bool:
    return any(run["state"] == "SUCCEEDED" for run in daemon.runs(service))
