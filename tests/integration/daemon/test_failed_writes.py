"""Writes that failed, and writes that only look so, on real Spark. The table's services continue beside both."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

import psutil
import pytest

from lakewarden.planners.formats.hudi.metadata.heartbeats import FIRST_BEAT_WITHIN, WINDOW
from lakewarden.planners.formats.hudi.options.service_options import CleanOptions, RollbackOptions
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Policy
from lakewarden.planners.triggers import NumCommits
from tests.support.hudi.hudi_daemon import hudi_daemon

if TYPE_CHECKING:
    from tests.support.hudi.orders import Orders
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark

EVERY_COMMIT = NumCommits(at_least=1)
SERVICES = {
    Service.CLEAN: Policy(
        trigger=EVERY_COMMIT, options=CleanOptions(policy="KEEP_LATEST_FILE_VERSIONS", file_versions_retained=1)
    ),
    Service.ROLLBACK: Policy(trigger=EVERY_COMMIT, options=RollbackOptions()),
}
OFTEN = timedelta(milliseconds=200)
EAGER = {
    "hoodie.write.concurrency.mode": "single_writer",
    "hoodie.cleaner.policy.failed.writes": "EAGER",
    "hoodie.clean.failed.writes.policy": "EAGER",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
}


class Attempts:
    """Writes at the same time, each in a thread of its own."""

    def __init__(self, orders: Orders, *writes: Callable[[], None]) -> None:
        self.errors: list[str] = []
        self._orders = orders
        self._jvm = psutil.Process(int(orders.spark._jvm.java.lang.ProcessHandle.current().pid()))
        self._known = set(orders.timeline("*.deltacommit.inflight"))
        self._threads = [threading.Thread(target=self._attempt, args=[write]) for write in writes]

    def _attempt(self, write: Callable[[], None]) -> None:
        try:
            write()
        except Exception as error:  # noqa: BLE001 - told in the main thread
            self.errors.append(str(error))

    @contextlib.contextmanager
    def stopped_in_flight(self) -> Iterator[list[str]]:
        """Hold all of them when each is in flight, and let them end after the context. Yields their instants."""
        for thread in self._threads:
            thread.start()
        while len(found := set(self._orders.timeline("*.deltacommit.inflight")) - self._known) < len(self._threads):
            assert all(thread.is_alive() for thread in self._threads), f"one ended too early: {self.errors}"
            time.sleep(0.001)
        self._jvm.send_signal(signal.SIGSTOP)
        try:
            yield sorted(name.split(".")[0] for name in found)
        finally:
            self._jvm.send_signal(signal.SIGCONT)
            for thread in self._threads:
                thread.join()


def test_after_a_lost_conflict_the_services_go_on_and_the_failed_write_goes(driver: Driver, orders: Orders) -> None:
    """Two writers change the same rows. The losing one leaves its write in flight, and its heartbeat, which was seen,
    is gone. Within minutes the write is known dead, counted as caused by the writers, and rolled back. No service waits
    for it.
    """
    heartbeats = orders.path / ".hoodie" / ".heartbeat"
    attempts = Attempts(orders, orders.write, dataclasses.replace(orders).write)
    with (
        driver.pool_lent() as pool,
        hudi_daemon(
            orders.path, lock=orders.lock, pool=pool, compacts_after=6, policies=SERVICES, poll=OFTEN
        ) as daemon,
    ):
        with attempts.stopped_in_flight() as instants:
            almost = time.time() - WINDOW.total_seconds() + 20
            for instant in instants:  # as if their last beat was some minutes ago
                os.utime(heartbeats / instant, (almost, almost))
            time.sleep(10 * OFTEN.total_seconds())
        assert len(attempts.errors) == 1
        assert "HoodieWriteConflictException" in attempts.errors[0]
        (lost,) = (i for i in instants if not orders.timeline(f"{i}_*.deltacommit"))
        assert orders.timeline(f"{lost}.deltacommit.inflight")
        assert not (heartbeats / lost).exists()

        orders.write()
        orders.write()
        daemon.succeeded(Service.COMPACTION, Service.CLEAN, Service.ROLLBACK)

        blamed = daemon.failure()
        assert (blamed.failure.instant, blamed.run) == (lost, None)
    assert orders.timeline(f"{lost}.*") == []
    assert orders.found() == orders.expected


@pytest.mark.parametrize("keys", [30, 60])
def test_an_idle_eager_write_is_left_alone_by_everything_and_keeps_its_rows(
    driver: Driver, orders: Orders, keys: int
) -> None:
    """It has no heartbeat, however long it takes. Compaction and clean run beside it, and it commits. Its new keys may
    go into small base files; that changes nothing.
    """
    eager = dataclasses.replace(orders, conf=EAGER)
    attempts = Attempts(orders, lambda: eager.write(keys=keys))
    with (
        driver.pool_lent() as pool,
        attempts.stopped_in_flight() as instants,
    ):
        (idle,) = instants
        assert not (orders.path / ".hoodie" / ".heartbeat" / idle).exists()
        time.sleep(FIRST_BEAT_WITHIN.total_seconds())
        with hudi_daemon(
            orders.path, lock=orders.lock, pool=pool, compacts_after=2, policies=SERVICES, poll=OFTEN
        ) as daemon:
            daemon.succeeded(Service.COMPACTION, Service.CLEAN)
        assert orders.timeline(f"{idle}.deltacommit.inflight")
        assert not orders.timeline("*.rollback*")
    assert attempts.errors == []
    assert orders.timeline(f"{idle}_*.deltacommit")
    assert orders.found() == eager.expected
