"""How a real writer of each Hudi release is seen to take its lock, in a real ZooKeeper and a file system."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

from lakewarden.planners.formats.hudi.options.table_options import FilesystemLock
from lakewarden.planners.formats.hudi.writers.acquisitions.samples import sample
from lakewarden.planners.formats.hudi.writers.acquisitions.zookeeper import Ensemble
from lakewarden.planners.model.proof import LockSample
from lakewarden.planners.storage import LocalStorage

if TYPE_CHECKING:
    from lakewarden.demo.daemon import ZooKeeper
    from tests.support.hudi.orders import Orders

pytestmark = pytest.mark.spark

FILESYSTEM = "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"


def test_zookeeper_counts_each_commit_of_a_writer_and_none_of_one_with_another_key(orders: Orders) -> None:
    """The node stays while the lock is free. Each commit releases the lock at least once."""
    assert orders.lock_state() == LockSample(), "it is a copy, and its lock was never taken"
    orders.write()
    before = orders.lock_state()
    orders.write()
    after = orders.lock_state()
    assert before.taken is not None
    assert after.taken is not None
    assert (after.number, after.held) == (before.number, False)
    assert after.taken > before.taken

    dataclasses.replace(orders, lock={**orders.lock, "lock_key": "a.typo"}).write()
    assert orders.lock_state() == after


def test_an_ensemble_is_asked_of_its_next_server_where_one_is_down(zookeeper: ZooKeeper) -> None:
    """A missing node is not the same answer as no server to ask."""
    both = Ensemble(f"127.0.0.1:1,{zookeeper.address}")
    assert both.node("/hudi/never.taken") is None
    root = both.node("/zookeeper")
    assert root is not None
    assert root.children > 0


def test_the_filesystem_lock_is_seen_by_its_folder(orders: Orders, tmp_path: Any) -> None:
    """A commit under it changes the folder's time. A commit without it does not."""
    lock = FilesystemLock(provider="filesystem", path=str(tmp_path / "locks"))
    under_it = {
        "hoodie.write.lock.provider": FILESYSTEM,
        "hoodie.write.lock.filesystem.path": str(tmp_path / "locks"),
    }
    nothing = sample(lock, orders.location, LocalStorage())
    dataclasses.replace(orders, conf={**orders.conf, **under_it}).write()
    used = sample(lock, orders.location, LocalStorage())
    assert (nothing.number, used.held) == ("", False)
    assert used.number

    orders.write()
    assert sample(lock, orders.location, LocalStorage()) == used
