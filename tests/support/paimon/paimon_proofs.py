"""What several services of Paimon promise alike: beside a writer, between its commits, and after a kill."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from lakewarden.executors.contract import Ended, Granted, Succeeded
from lakewarden.planners.model.instant import Service, Step
from tests.support.daemon.daemon_process import DaemonProcess
from tests.support.daemon.held_runs import killed_at
from tests.support.paimon.paimon_orders import PaimonOrders, rows
from tests.support.pool.driver import Driver


def writing(orders: PaimonOrders, seen: list[bool]) -> Callable[[], None]:
    """Return a writer: each call commits one batch. After every fifth, `seen` gets whether a read finds every row."""
    numbers = iter(range(10_000))

    def write() -> None:
        number = next(numbers)
        orders.write(rows(number % 50, f"live{number}", count=3))
        if number % 5 == 0:
            seen.append(orders.read() == sorted(orders.expected))

    return write


def kept_between_permit_and_commit(driver: Driver, orders: PaimonOrders, service: Service) -> None:
    """Write between the plan of a run and its commit. The commit follows the write, and takes none of its files."""
    run = driver.submit(orders, service)
    driver.advance(run, to=Step.COMMIT)
    orders.write(rows(3, "between"))
    driver.pool.answer(run, Step.COMMIT, Granted())
    assert isinstance(driver.next(run, Ended).outcome, Succeeded)
    assert [one["commitKind"] for one in orders.snapshots()[-2:]] == ["APPEND", "COMPACT"]
    assert orders.read() == sorted(orders.expected)


def settled_after_a_kill(
    orders: PaimonOrders,
    services: Mapping[str, Any],
    daemon_of: Callable[..., DaemonProcess],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    point: str,
    commits: Sequence[int],
    signature: str = "lakewarden-{}",
) -> None:
    """Kill the JVM while a run of the only service stands at the point, and let the daemon go on until one succeeds.

    The runs have made so many `commits` with their signature, the oldest first, and each ended as that says. Every row
    is right.
    """
    [service] = services
    start = functools.partial(daemon_of, orders, services, formats=["paimon"])
    daemon = killed_at(point, service, start, folder, monkeypatch)

    def ended() -> bool:
        runs = daemon.runs(service)
        return bool(runs) and runs[0]["state"] == "SUCCEEDED"

    daemon.until(ended)
    runs = [run for run in reversed(daemon.runs(service)) if run["state"] in {"SUCCEEDED", "FAILED"}]
    users = [one["commitUser"] for one in orders.snapshots()]
    assert [users.count(signature.format(run["id"])) for run in runs] == commits
    assert [run["state"] for run in runs] == ["SUCCEEDED" if count else "FAILED" for count in commits]
    assert orders.read() == sorted(orders.expected)
    assert daemon.stop() == 0
