"""A slow clean: our next commit waits for it. If the clean was killed half-way, it is finished first."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import psutil
import pytest

if TYPE_CHECKING:
    from tests.support.daemon.daemon_process import DaemonProcess
    from tests.support.hudi.orders import Orders

pytestmark = pytest.mark.spark

ONLY_WHEN_ASKED = {"trigger": {"num_commits": 1000}}
SERVICES = {
    "compaction": ONLY_WHEN_ASKED,
    "clean": {**ONLY_WHEN_ASKED, "options": {"policy": "KEEP_LATEST_FILE_VERSIONS", "file_versions_retained": 1}},
}
TWO_WORKERS = {"workers": 2, "slots": 1, "memory": "512m", "hung_after": "10m"}
"""The clean can be stopped with its JVM, while the compaction continues in the other JVM."""


class Arrangement:
    """A daemon with a clean that was stopped after it began to delete, and with a compaction at its commit."""

    def __init__(self, orders: Orders, daemon: DaemonProcess) -> None:
        self.orders = orders
        self.daemon = daemon
        daemon.start()
        daemon.until(lambda: daemon.workers_ready() == TWO_WORKERS["workers"])
        self._ask_for("compaction")
        daemon.until_succeeded("compaction")
        orders.write()
        self.cleaning = self._clean_and_stop()
        self._ask_for("compaction")
        self.daemon.until(lambda: "clean" in (self.compaction()["waits_for"] or ""))

    def compaction(self) -> dict[str, Any]:
        """Return the newest compaction run."""
        found: dict[str, Any] = self.daemon.runs("compaction")[0]
        return found

    def completions(self) -> list[str]:
        """Return `clean` and `commit` (a compaction's) for each completed instant, in the order of the completion
        times.
        """
        completed = sorted(name.split("_")[1] for name in self.orders.timeline("[0-9]*_*"))
        actions = [name.split(".")[1] for name in completed]
        return [action for action in actions if action in ("clean", "commit")]

    def _clean_and_stop(self) -> psutil.Process:
        """Ask for a clean, and stop its JVM when its deletion has begun. Return the JVM."""
        before = {jvm: _busy_seconds(jvm) for jvm in self.daemon.worker_jvms()}
        self._ask_for("clean")
        self.daemon.until(lambda: self.daemon.runs("clean")[0]["step"] == "commit")
        cleaning = max(before, key=lambda jvm: _busy_seconds(jvm) - before[jvm])
        deadline = time.monotonic() + 30
        while not self.orders.timeline("[0-9]*.clean.inflight") and time.monotonic() < deadline:
            pass  # the deletion itself takes only milliseconds
        cleaning.suspend()
        assert self.orders.timeline("[0-9]*.clean.inflight") != []
        assert self.orders.timeline("*_*.clean") == [], "the clean was over before it could be stopped"
        return cleaning

    def _ask_for(self, service: str) -> None:
        assert self.daemon.post(f"/v1/tables/sales.orders/services/{service}/runs").is_success


def _busy_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


@pytest.fixture
def stopped(orders: Orders, daemon_of: Callable[..., DaemonProcess]) -> Arrangement:
    return Arrangement(orders, daemon_of(orders, SERVICES, **TWO_WORKERS))


@pytest.mark.faults
def test_a_clean_that_was_killed_half_way_is_finished_before_the_commit_that_waited_for_it(
    stopped: Arrangement,
) -> None:
    """The commit waits while the clean is stopped, and after a restart until the clean is done."""
    daemon = stopped.daemon
    time.sleep(3)
    assert "clean" in stopped.compaction()["waits_for"]
    assert stopped.completions() == ["commit"]

    daemon.kill()
    daemon.start()

    daemon.until(lambda: len(stopped.completions()) == 3)
    daemon.until(lambda: not (daemon.get("/v1/tables/sales.orders/timeline?pending=true") or {"items": 1})["items"])
    assert stopped.completions() == ["commit", "clean", "commit"]
    assert stopped.orders.found() == stopped.orders.expected
    assert daemon.stop() == 0


@pytest.mark.faults
@pytest.mark.parametrize("victim_dies", [False, True], ids=["the clean goes on", "its JVM is killed"])
def test_a_commit_waits_until_the_clean_is_over(stopped: Arrangement, victim_dies: bool) -> None:
    """Either the slow clean ends by itself, or another worker finishes it."""
    if victim_dies:
        stopped.cleaning.kill()
    else:
        stopped.cleaning.resume()

    daemon = stopped.daemon
    daemon.until(lambda: len(stopped.completions()) == 3)
    assert stopped.completions() == ["commit", "clean", "commit"]
    assert stopped.orders.found() == stopped.orders.expected
    assert daemon.stop() == 0
