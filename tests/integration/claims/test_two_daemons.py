"""Two real daemons, each with a data folder of its own, have one Hudi table by mistake."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.support.daemon.daemon_process import TABLE, DaemonProcess

if TYPE_CHECKING:
    from tests.support.hudi.orders import Orders

pytestmark = [pytest.mark.spark, pytest.mark.faults]

COMPACTION = {"compaction": {"trigger": {"num_commits": 2}}}


@pytest.fixture
def two(tmp_path: Path, orders: Orders) -> Iterator[Callable[[], list[DaemonProcess]]]:
    """Make the two daemons. Processes that they leave behind are killed."""
    made: list[DaemonProcess] = []

    def make() -> list[DaemonProcess]:
        made.extend(DaemonProcess(tmp_path / name, orders, COMPACTION) for name in ("one", "other"))
        return made

    yield make
    for daemon in made:
        daemon.end()


def _block(daemon: DaemonProcess) -> Any:
    answer = daemon.get(f"/v1/tables/{TABLE}") or {}
    return answer.get("claimed")


def _metric(daemon: DaemonProcess) -> float | None:
    """Return the gauge of foreign claims."""
    settings = json.loads((daemon.log.parent / "lakewarden.yaml").read_text())
    text = httpx.get(f"http://127.0.0.1:{settings['management']['port']}/metrics", timeout=5, verify=False).text
    found = [line for line in text.splitlines() if line.startswith("lakewarden_foreign_claims{")]
    return float(found[0].rpartition(" ")[2]) if found else None


def test_one_acts_and_the_other_takes_over_only_after_the_silence_of_a_killed_one(
    two: Callable[[], list[DaemonProcess]], orders: Orders
) -> None:
    """The first daemon is killed with kill -9 while it executes. The second may begin two minutes later, and every row
    is right.
    """
    one, other = two()
    one.start()
    one.until(lambda: any(run["step"] == "execute" for run in one.runs("compaction")))
    other.start()
    claim = orders.path / ".hoodie" / ".lakewarden" / "claim.json"
    assert claim.exists()
    other.until(lambda: _block(other))
    assert not [run for run in other.runs("compaction") if run["step"]]
    assert _metric(other) == 1
    one.until_succeeded("compaction")

    orders.write()
    orders.write()
    one.until(lambda: any(run["step"] == "execute" and run["state"] == "RUNNING" for run in one.runs("compaction")))
    one.kill()
    killed = time.monotonic()
    assert not [run for run in other.runs("compaction") if run["step"]]
    other.until(lambda: _block(other) is None, within=600)
    silence = time.monotonic() - killed
    assert silence > 105
    # This daemon has no proof that the other's JVM is dead. So it waits for its heartbeat, too.
    other.until(lambda: any(run["state"] == "SUCCEEDED" for run in other.runs("compaction")), within=600)
    assert orders.found() == orders.expected
    assert len(orders.timeline("*_*.commit")) == 2
    assert other.stop() == 0
    assert not claim.exists()
