"""A JVM that is killed while it executes leaves a heartbeat. The owner of the heartbeat decides whether Lakewarden
waits for it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.daemon.daemon_process import TABLE, DaemonProcess

if TYPE_CHECKING:
    from tests.support.hudi.orders import Orders

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


def test_a_heartbeat_that_beats_after_our_jvm_died_is_waited_for(
    orders: Orders,
    daemon_of: Callable[..., DaemonProcess],
) -> None:
    """Another client executes our plan. We leave it alone, although the JVM of our run is proved dead."""
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
