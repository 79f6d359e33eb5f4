"""One cluster for all tests of pods: real controllers, three nodes that stand in for kubelets, a PostgreSQL."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.support.helm.chart import NAMESPACE
from tests.support.kube.cluster import Cluster, running_cluster
from tests.support.kube.fleet import Fleet, installed_fleet
from tests.support.store.postgres import PostgresServer, running_postgres

IMAGES = frozenset({"lakewarden:1", "lakewarden:2"})


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Run one cluster."""
    if os.geteuid() != 0:
        pytest.skip("pods have networks of their own, and only root makes these")
    folder = tmp_path_factory.mktemp("cluster")
    with running_cluster(folder, namespace=NAMESPACE, nodes=3, images=IMAGES) as made:
        yield made


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """Run one server."""
    with running_postgres() as server:
        yield server


@pytest.fixture(scope="module")
def installed(cluster: Cluster, postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Install three replicas once. Every test leaves three ready pods behind."""
    with installed_fleet(cluster, postgres, tmp_path_factory.mktemp("release")) as made:
        yield made


@pytest.fixture
def fleet(installed: Fleet) -> Fleet:
    """Lend the release, after each pod has its part of the tables."""
    installed.until_settled()
    installed.attendance.begin()
    return installed
