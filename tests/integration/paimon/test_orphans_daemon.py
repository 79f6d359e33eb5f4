"""A started daemon deletes the orphans of a Paimon table beside a live writer, and after kill -9 at every step."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.paimon.test_clean import AT_ONCE
from tests.integration.paimon.test_orphans import age, lose, ours
from tests.support.daemon.daemon_process import DaemonProcess
from tests.support.daemon.held_runs import killed_at
from tests.support.paimon.paimon_orders import PaimonOrders, rows

pytestmark = pytest.mark.spark

ORPHANS = {"orphans": {"trigger": {"num_commits": 1}, "options": {"unknown_for": "0s", "older_than": "1d"}}}


@pytest.mark.parametrize("point", ["planned", "executing", "permitted", "deleting", "committed"])
@pytest.mark.faults
def test_orphans_killed_at_a_point_leave_a_table_that_is_read_and_are_carried_on(
    orders: PaimonOrders,
    daemon_of: Callable[..., DaemonProcess],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    point: str,
) -> None:
    """For every point: the next run deletes the rest, and nothing else. After that the service rests. A run that was
    killed after its last deletion has left nothing to do.
    """
    orders.told = AT_ONCE
    orders.compact_itself()
    known = orders.files()
    lost = {lose(orders) for _ in range(3)}
    age(orders)
    start = functools.partial(daemon_of, orders, ORPHANS, formats=["paimon"])
    daemon = killed_at(point, "orphans", start, tmp_path, monkeypatch)
    assert orders.read() == sorted(orders.expected)

    def all_ended() -> bool:
        runs = daemon.runs("orphans")
        return runs[0]["state"] == ("FAILED" if point == "committed" else "SUCCEEDED") and not lost & orders.files()

    daemon.until(all_ended)
    assert orders.files() - ours(orders) == known
    assert orders.read() == sorted(orders.expected)
    runs = len(daemon.runs("orphans"))
    orders.write(rows(3, "last"))
    daemon.until(lambda: len(daemon.runs("orphans")) > runs and daemon.runs("orphans")[0]["state"] == "SUCCEEDED")
    assert len(daemon.runs("orphans")) == runs + 1
    assert {run["state"] for run in daemon.runs("orphans")} <= {"SUCCEEDED", "FAILED"}
    assert daemon.stop() == 0


def test_orphans_beside_a_live_writer_take_nothing_of_it(
    orders: PaimonOrders, daemon_of: Callable[..., DaemonProcess]
) -> None:
    """Neither what it has committed, nor what it has written and not committed. Beside compactions and cleans."""
    orders.told = AT_ONCE
    lost = {lose(orders) for _ in range(3)}
    age(orders)
    held = orders.prepare(rows(100, "held"))
    clean = {"trigger": {"num_commits": 3}, "options": {"max_snapshot_age": "1s", "min_snapshots_to_keep": 3}}
    services = {"compaction": {"trigger": {"num_commits": 3}}, "clean": clean, **ORPHANS}
    daemon = daemon_of(orders, services, formats=["paimon"])
    daemon.start()
    seen, numbers = [], iter(range(10_000))

    def twice_deleted() -> bool:
        number = next(numbers)
        orders.write(rows(number % 50, f"live{number}", count=3))
        if number % 5 == 0:
            seen.append(orders.read() == sorted(orders.expected))
        if number == 15:
            before = orders.files()
            lost.add(lose(orders))
            age(orders, but=before)
        runs = [run for run in daemon.runs("orphans") if run["state"] == "SUCCEEDED"]
        deleted = sum(run["figures"].get("files_deleted", 0) for run in runs)
        cleaned = any(run["state"] == "SUCCEEDED" for run in daemon.runs("clean"))
        return number > 15 and deleted >= len(lost) and cleaned

    daemon.until(twice_deleted)
    assert all(seen)
    assert not lost & orders.files()
    held.commit()
    assert orders.read() == sorted(orders.expected)
    assert [run["outcome"] for service in services for run in daemon.runs(service) if run["state"] == "FAILED"] == []
    assert daemon.stop() == 0
