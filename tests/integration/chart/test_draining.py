"""SIGTERM as the kubelet sends it, in the middle of a compaction. The rendered grace is long enough."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakewarden.executors.worker import java
from tests.support.helm.chart import Rendered
from tests.support.helm.local_pod import LocalPod

if TYPE_CHECKING:
    from tests.support.hudi.orders import Orders

pytestmark = [pytest.mark.chart, pytest.mark.spark]

LIGHT_JVM = {"spark.driver.extraJavaOptions": java.LIGHT}


def _values(orders: Orders, *, drain_seconds: int) -> dict[str, Any]:
    table = {
        "id": "sales.orders",
        "format": "hudi",
        "path": str(orders.path),
        "mode": "act",
        "poll": "500ms",
        "options": {"lock": dict(orders.lock), "lock_proof": "trusted"},
        "services": {"compaction": {"trigger": {"num_commits": 2}}},
    }
    profile = {"memory": "768m", "master": "local[2]", "conf": LIGHT_JVM}
    return {"drainSeconds": drain_seconds, "config": {"spark": {"default": profile}, "tables": [table]}}


@pytest.fixture
def pod(request: pytest.FixtureRequest, orders: Orders, tmp_path: Path) -> Iterator[LocalPod]:
    """Run the chart's command until a compaction has begun to rewrite; the parameter is its drain in seconds."""
    made = LocalPod(Rendered(_values(orders, drain_seconds=request.param)), tmp_path / "pod")
    try:
        made.until(lambda: any(run["step"] == "execute" for run in made.runs("compaction")))
        assert orders.timeline("*_*.commit") == []
        yield made
    finally:
        made.end()


@pytest.mark.parametrize("pod", [60], indirect=True)
def test_a_compaction_that_runs_is_completed_before_the_pod_ends(pod: LocalPod, orders: Orders) -> None:
    """It is alive for the kubelet meanwhile, and no longer ready. Then it exits by itself, and every row is right."""
    pod.terminate()
    pod.until(lambda: pod.probe("readinessProbe") == 503)
    assert pod.probe("livenessProbe") == 200

    assert pod.ending() == 0

    assert len(orders.timeline("*_*.commit")) == 1
    assert orders.found() == orders.expected


@pytest.mark.parametrize("pod", [0], indirect=True)
def test_a_compaction_that_may_not_be_drained_is_given_up_within_the_grace(pod: LocalPod, orders: Orders) -> None:
    """Without a drain the daemon yields and ends its JVM in the remaining 15 seconds. No row is touched."""
    began = time.monotonic()
    pod.terminate()

    assert pod.ending() == 0

    assert time.monotonic() - began < 15  # wall time: the kubelet kills it then
    assert orders.found() == orders.expected
