"""A JVM that is killed while it executes leaves a heartbeat: whose it is decides whether it is waited for."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.daemon.conftest import TABLE, DaemonProcess, daemon_of  # noqa: F401 - a fixture

if TYPE_CHECKING:
    from tests.integration.conftest import Orders

pytestmark = pytest.mark.spark

COMPACTION = {"compaction": {"trigger": {"num_commits": 2}}}


def _killed_while_it_executes(daemon: DaemonProcess, orders: Orders) -> Path:
    """Kill the worker's JVM as soon as its heartbeat is there, and return the heartbeat."""
    folder = orders.path / ".hoodie" / ".heartbeat"
    daemon.start()
    daemon.until(lambda: [*folder.glob("2*")])
    daemon.kill_worker_jvm()
    [heartbeat] = folder.glob("2*")
    return heartbeat


def test_a_killed_jvms_instant_is_completed_without_waiting_for_its_heartbeat(
    orders: Orders,
    daemon_of: Callable[..., DaemonProcess],  # noqa: F811
    record_property: Callable[[str, Any], None],
) -> None:
    """Hudi's heartbeat would bar it for two to three minutes; the JVM is proved dead, so a new one begins at once."""
    daemon = daemon_of(orders, COMPACTION)
    heartbeat = _killed_while_it_executes(daemon, orders)
    killed = time.monotonic()
    daemon.until_succeeded("compaction")
    recovered = time.monotonic() - killed
    record_property("recovery_seconds", round(recovered, 1))
    print(f"recovered after {recovered:.1f} s")
    assert recovered < 90
    assert orders.found() == orders.expected
    assert not heartbeat.exists()
    assert daemon.stop() == 0


def test_a_heartbeat_that_beats_after_our_jvm_died_is_waited_for(
    orders: Orders,
    daemon_of: Callable[..., DaemonProcess],  # noqa: F811
) -> None:
    """Somebody else executes our plan: we leave it alone, although the JVM that was at it is proved dead."""
    daemon = daemon_of(orders, COMPACTION)
    heartbeat = _killed_while_it_executes(daemon, orders)
    later = time.time() + 40
    os.utime(heartbeat, (later, later))
    daemon.until(lambda: daemon.workers_ready() == 2)

    def guarded() -> bool:
        decision = daemon.get(f"/v1/tables/{TABLE}")["services"]["compaction"]["decision"]
        return decision is not None and "guarded by the heartbeat" in decision["reason"]

    daemon.until(guarded)
    time.sleep(15)
    assert guarded()
    assert heartbeat.exists()
    assert daemon.stop() == 0
