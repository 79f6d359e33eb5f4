"""kill -9 of the daemon or of a worker's JVM at every step. The work is finished, and every row is right."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.support.daemon.daemon_process import DaemonProcess
    from tests.support.hudi.orders import Orders

pytestmark = pytest.mark.spark

PENDING = "/v1/tables/sales.orders/timeline?pending=true"
COMPACTION = {"compaction": {"trigger": {"num_commits": 2}}}
CLEAN = {
    "clean": {
        "trigger": {"num_commits": 1},
        "options": {"policy": "KEEP_LATEST_FILE_VERSIONS", "file_versions_retained": 1},
    }
}


def _granted(daemon: DaemonProcess, service: str, step: str) -> Callable[[], bool]:
    return lambda: any(run["step"] == step for run in daemon.runs(service))


def _check_store(daemon: DaemonProcess, service: str, pending: str, orders: Orders) -> None:
    """Check that no instant is pending, that no two runs completed one instant, and that the epochs of the lease only
    rose.
    """
    assert orders.timeline(f"*.{pending}.requested") != []
    runs: list[dict[str, Any]] = daemon.runs(service)
    done = [run["instant"] for run in runs if run["state"] == "SUCCEEDED" and run["instant"]]
    assert len(done) == len(set(done))
    epochs = [run["epoch"] for run in reversed(runs) if run["epoch"]]
    assert epochs == sorted(set(epochs))
    assert daemon.get(PENDING)["items"] == []


MORE = pytest.mark.faults
"""The rest of the matrix: `./dev test -m faults`."""


@pytest.mark.parametrize(
    ("victim", "step"),
    [
        ("jvm", "execute"),
        ("daemon", "commit"),
        pytest.param("daemon", "plan", marks=pytest.mark.core),
        pytest.param("jvm", "plan", marks=MORE),
        pytest.param("daemon", "execute", marks=MORE),
        pytest.param("jvm", "commit", marks=MORE),
    ],
)
def test_a_compaction_killed_at_a_step_is_finished_afterwards(
    orders: Orders, daemon_of: Callable[..., DaemonProcess], victim: str, step: str
) -> None:
    """The plan that was left is adopted and completed once, and hudi-rs finds every row. An executor that dies leaves
    its heartbeat, which blocks the plan until it has run out: two to three minutes.
    """
    heartbeats = orders.path / ".hoodie" / ".heartbeat"
    daemon = daemon_of(orders, COMPACTION)
    daemon.start()
    daemon.until(_granted(daemon, "compaction", step))
    if step == "execute":
        daemon.until(lambda: [*heartbeats.glob("2*")])
    left = [*heartbeats.glob("2*")] if step == "execute" else []
    if victim == "daemon":
        daemon.kill()
        daemon.start()
    else:
        daemon.kill_worker_jvm()

    daemon.until_succeeded("compaction")
    assert not [heartbeat for heartbeat in left if heartbeat.exists()]
    assert orders.found() == orders.expected
    assert len(orders.timeline("*_*.commit")) == 1
    daemon.until(lambda: not daemon.get(PENDING)["items"])
    _check_store(daemon, "compaction", "compaction", orders)
    assert daemon.stop() == 0


@pytest.mark.parametrize("victim", ["daemon", pytest.param("jvm", marks=MORE)])
def test_a_clean_killed_while_it_deletes_is_finished_afterwards(
    orders: Orders, daemon_of: Callable[..., DaemonProcess], victim: str
) -> None:
    """An unfinished clean is finished by its own plan, and nothing that a reader needs is deleted."""
    daemon = daemon_of(orders, {**COMPACTION, **CLEAN})
    daemon.start()
    daemon.until_succeeded("compaction")
    daemon.until(_granted(daemon, "clean", "commit"))
    if victim == "daemon":
        daemon.kill()
        daemon.start()
    else:
        daemon.kill_worker_jvm()

    daemon.until_succeeded("clean")
    assert orders.found() == orders.expected
    daemon.until(lambda: not daemon.get(PENDING)["items"])
    _check_store(daemon, "clean", "clean", orders)
    assert daemon.stop() == 0
