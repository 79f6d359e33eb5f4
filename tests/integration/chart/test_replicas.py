"""Three replicas as the chart installs them: on a real API server with its controllers, and beside a writer."""

from __future__ import annotations

import time

import pytest

from tests.support.helm.chart import CHART, RELEASE
from tests.support.kube.fleet import LEASE, PODS, TABLES, Fleet

pytestmark = pytest.mark.chart

MOVED_SECONDS = LEASE * 4 / 3
"""After so long other replicas have the tables of one that was killed: a lease, and the time between two sharings."""
SLACK_SECONDS = 10
"""What a busy machine may add."""


def test_each_pod_has_its_part_of_the_tables(fleet: Fleet) -> None:
    """`helm install --wait` has returned. Every table has one owner, and each pod knows all tables. If a request about
    a table goes to another pod, the owner answers. It is reached by its name in the headless Service.
    """
    owners = fleet.attendance.owners
    assert len(owners) == TABLES
    even = [TABLES // len(PODS)] * len(PODS)
    # What a replica knows of others is as old as its last sharing.
    fleet.cluster.until(lambda: all(fleet.tables_of_replicas(pod) == even for pod in PODS))
    for pod in PODS:
        for number in range(TABLES):
            assert fleet.ask(pod, f"/v1/tables/lake.table_{number}")["id"] == f"lake.table_{number}"


def test_the_pods_run_as_the_chart_says(fleet: Fleet) -> None:
    """They have the user of the image, a root that cannot be written, the group of the volumes, and secrets as files.
    The scheduler has spread them over the nodes.
    """
    container = fleet.cluster.on_node(PODS[0]).containers[0]
    assert (container.run("id", "-u").strip(), container.run("id", "-g").strip()) == ("185", "0")
    with pytest.raises(AssertionError, match="Read-only file system"):
        container.run("touch", "/file")
    container.run("touch", "/var/lib/lakewarden/workers/file", "/tmp/file", "/lake/file")
    assert container.run("cat", "/run/secrets/lakewarden/operator").startswith("lwk_")
    assert {fleet.cluster.node_of(pod) for pod in PODS} == {"node-0", "node-1", "node-2"}


def test_helm_test_succeeds(fleet: Fleet) -> None:
    """Its pod reaches both Services by their names."""
    assert "Succeeded" in fleet.helm("test", "--timeout", "120s")


def test_an_upgrade_replaces_one_pod_after_the_other(fleet: Fleet) -> None:
    """Two pods are ready at each moment, and no table is without an owner for as long as a lease. No row is lost. No
    write fails. A rollback does the same, and brings the first image back.
    """
    upgrade = ("upgrade", CHART, "--reuse-values", "--set-string", "image.tag=2")
    for image, command in (("lakewarden:2", upgrade), ("lakewarden:1", ("rollback",))):
        fewest = len(PODS)
        with fleet.written(), fleet.begin(*command) as going_on:
            while going_on.poll() is None:
                fewest = min(fewest, len(fleet.ready()))
                time.sleep(0.1)
            assert going_on.returncode == 0, going_on.communicate()[0]
            fleet.until_settled()
        found = fleet.cluster.pods(RELEASE).values()
        assert [pod["spec"]["containers"][0]["image"] for pod in found] == [image] * len(PODS)
        assert fewest >= len(PODS) - 1
        assert fleet.attendance.longest_gap() < LEASE


def test_an_upgrade_with_a_wrong_configuration_ends_before_a_pod_is_touched(fleet: Fleet) -> None:
    """The Job fails, and Helm says so. The same pods go on."""
    before = {name: pod["metadata"]["uid"] for name, pod in fleet.cluster.pods(RELEASE).items()}
    wrong = fleet.values()
    wrong["config"]["tables"].append(wrong["config"]["tables"][0])  # which the schema of the chart cannot know
    with pytest.raises(AssertionError, match="pre-upgrade hooks failed"):
        fleet.put("upgrade", wrong)
    assert {name: pod["metadata"]["uid"] for name, pod in fleet.cluster.pods(RELEASE).items()} == before
    fleet.helm("rollback", "--wait")


def test_a_drain_takes_one_pod_at_a_time(fleet: Fleet) -> None:
    """The first eviction is granted. The budget forbids a second one until the successor is ready."""
    with fleet.written():
        assert fleet.cluster.evict(PODS[0])
        fleet.cluster.until(lambda: PODS[0] not in fleet.ready())
        assert not fleet.cluster.evict(PODS[1])
        assert PODS[1] in fleet.ready()
        fleet.cluster.until(lambda: fleet.ready() == list(PODS))
        fleet.cluster.until(lambda: fleet.cluster.evict(PODS[1]))
        fleet.cluster.until(lambda: PODS[1] not in fleet.ready())
        fleet.until_settled()
    assert fleet.attendance.longest_gap() < LEASE


def test_a_killed_daemon_is_restarted_in_its_pod(fleet: Fleet) -> None:
    """The container starts again, with the volumes and the address of the pod. Its tables move after the lease."""
    pod = fleet.cluster.on_node(PODS[0])
    container, address = pod.containers[0], pod.address
    container.run("touch", "/var/lib/lakewarden/kept")
    with fleet.written():
        container.crash()
        assert len(fleet.attendance.died(PODS[0])) == TABLES // len(PODS)
        fleet.cluster.until(lambda: container.restarts == 1 and container.ready)
        fleet.until_settled()
    assert (pod.uid, pod.address) == (fleet.cluster.on_node(PODS[0]).uid, address)
    container.run("test", "-e", "/var/lib/lakewarden/kept")
    assert fleet.attendance.longest_gap() < MOVED_SECONDS + SLACK_SECONDS
