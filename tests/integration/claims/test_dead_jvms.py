"""A JVM that is killed while it executes leaves a heartbeat. The owner of the heartbeat decides whether Lakewarden
waits for it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.daemon.daemon_process import TABLE, DaemonProcess
from tests.support.doubles import fault_points

if TYPE_CHECKING:
    from tests.support.hudi.orders import Orders

pytestmark = pytest.mark.spark

COMPACTION = {"compaction": {"trigger": {"num_commits": 2}}}


@pytest.fixture
def faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file with the faults of the daemon and its workers."""
    file = tmp_path / "faults.json"
    monkeypatch.setenv(fault_points.VARIABLE, str(file))
    return file


def _killed_while_it_executes(daemon: DaemonProcess, orders: Orders, faults: Path) -> Path:
    """Kill the worker's JVM when it has written and committed nothing, and return its heartbeat."""
    held = faults.with_name("held")
    faults.write_text(json.dumps([{"point": "executed", "act": "hold", "service": "compaction", "told": str(held)}]))
    daemon.start()
    daemon.until(held.exists)
    [heartbeat] = (orders.path / ".hoodie" / ".heartbeat").glob("2*")
    daemon.kill_worker_jvm()
    faults.unlink()
    held.unlink()
    return heartbeat


def test_a_heartbeat_that_beats_after_our_jvm_died_is_waited_for(
    orders: Orders, daemon_of: Callable[..., DaemonProcess], faults: Path
) -> None:
    """Another client executes our plan. We leave it alone, although the JVM of our run is proved dead."""
    daemon = daemon_of(orders, COMPACTION)
    heartbeat = _killed_while_it_executes(daemon, orders, faults)
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
