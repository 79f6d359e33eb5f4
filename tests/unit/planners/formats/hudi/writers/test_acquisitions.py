"""What locks show of having been taken, without a lock service. ZooKeeper itself is tried in
tests/integration/observing/test_locks_seen.py.
"""

from __future__ import annotations

import json
import os
import socket
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakewarden.demo.daemon import free_port
from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.hudi.options.service_options import CompactionOptions
from lakewarden.planners.formats.hudi.options.table_options import (
    FilesystemLock,
    HudiTableOptions,
    Lock,
    StorageLock,
    ZookeeperLock,
)
from lakewarden.planners.formats.hudi.writers.acquisitions.samples import called, leaves_traces, sample
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Mode, Policy, Table, TableId
from lakewarden.planners.storage import LocalStorage
from lakewarden.planners.triggers import NumCommits
from tests.support.hudi.hudi_table import HudiTable
from tests.support.values import NOW

STORAGE = StorageLock(provider="storage")
NOBODY_THERE = {"provider": "zookeeper", "base_path": "/hudi", "lock_key": "orders"}
WITHOUT_A_TRACE: list[dict[str, str]] = [
    {"provider": "dynamodb", "table": "locks", "partition_key": "orders", "region": "eu-west-1"},
    {"provider": "hive", "database": "sales", "table": "orders", "uris": "thrift://metastore:9083"},
]


def write_lock_file(table: Path, *, expired: bool, until: int) -> None:
    """Write what Hudi's provider writes when it takes, keeps or releases the lock."""
    folder = table / ".hoodie" / ".locks"
    folder.mkdir(parents=True, exist_ok=True)
    content = {"expired": expired, "validUntil": until, "owner": "3f4c"}
    (folder / "table_lock.json").write_text(json.dumps(content))


def test_a_storage_lock_shows_each_time_that_it_was_taken(tmp_path: Path) -> None:
    """Its file is written anew each time, and says whether the lock is held."""
    assert sample(STORAGE, str(tmp_path), LocalStorage()).number == ""
    write_lock_file(tmp_path, expired=False, until=1)
    taken = sample(STORAGE, str(tmp_path), LocalStorage())
    write_lock_file(tmp_path, expired=True, until=1)
    free = sample(STORAGE, str(tmp_path), LocalStorage())
    write_lock_file(tmp_path, expired=True, until=2)
    later = sample(STORAGE, str(tmp_path), LocalStorage())

    assert (taken.held, free.held) == (True, False)
    assert len({taken.mark, free.mark, later.mark}) == 3
    assert free.used_at is not None
    assert abs(free.used_at - datetime.now(UTC)) < timedelta(minutes=1)


@pytest.mark.parametrize("content", ["", "[]", "7", "{}", "no JSON", '{"expired":'])
def test_a_damaged_lock_file_is_an_error_and_no_evidence(tmp_path: Path, content: str) -> None:
    """Every client that can write to the table can write the file."""
    write_lock_file(tmp_path, expired=True, until=1)
    (tmp_path / ".hoodie" / ".locks" / "table_lock.json").write_text(content)

    with pytest.raises(TemporaryError, match=r"table_lock\.json cannot be read"):
        sample(STORAGE, str(tmp_path), LocalStorage())


def test_a_filesystem_lock_shows_by_its_folders_time_that_it_came_and_went(tmp_path: Path) -> None:
    """The file is gone while the lock is free."""
    lock = FilesystemLock(provider="filesystem", path=f"file://{tmp_path}/locks/")
    assert sample(lock, "/lake/orders", LocalStorage()).number == ""
    (tmp_path / "locks").mkdir()
    free = sample(lock, "/lake/orders", LocalStorage())
    (tmp_path / "locks" / "lock").touch()
    taken = sample(lock, "/lake/orders", LocalStorage())
    (tmp_path / "locks" / "lock").unlink()
    os.utime(tmp_path / "locks", (time.time() + 1, time.time() + 1))
    later = sample(lock, "/lake/orders", LocalStorage())

    assert [one.held for one in (free, taken, later)] == [False, True, False]
    assert len({free.mark, taken.mark, later.mark}) == 3


def view_of(folder: Path, *, mode: Mode = Mode.ACT, policies: bool = True, version: int = 9, **options: Any) -> Any:
    """Return the view of a table with these options."""
    table = HudiTable(folder, version=version, clock=ManualClock(NOW), zone=UTC)
    served = Table(
        id=TableId("orders"),
        format="hudi",
        location=str(table.folder),
        mode=mode,
        options=HudiTableOptions.model_validate(options),
        policies={Service.COMPACTION: Policy(trigger=NumCommits(at_least=1), options=CompactionOptions())}
        if policies
        else {},
    )
    return HUDI.observe(served, LocalStorage(), None, now=table.clock.now()).view


@pytest.mark.parametrize("lock", WITHOUT_A_TRACE, ids=lambda lock: lock["provider"])
def test_a_lock_that_leaves_no_trace_holds_everything_back_until_it_is_trusted(
    tmp_path: Path, lock: dict[str, str]
) -> None:
    """The danger is named, before and after."""
    view = view_of(tmp_path / "one", lock=lock)
    (blocker,) = view.blockers
    assert not blocker.services
    assert f"a {lock['provider']} lock leaves no trace" in blocker.reason
    assert "lock_proof: trusted" in blocker.remedy
    assert view.lock is None

    trusted = view_of(tmp_path / "other", lock=lock, lock_proof="trusted")
    assert trusted.blockers == ()
    assert any("loses acknowledged updates silently" in warning for warning in trusted.warnings)


def test_a_lock_service_that_does_not_answer_hides_the_lock_alone(tmp_path: Path) -> None:
    """The table is observed all the same, and the next observation does not wait for the service again."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"127.0.0.1:{mute.getsockname()[1]}"
        for name in ("one", "other"):
            lock = view_of(tmp_path / name, lock={**NOBODY_THERE, "url": url}).lock
            assert lock.before is lock.after is None
            assert f"ZooKeeper at {url} does not answer" in lock.failure
        mute.setblocking(False)
        mute.accept()[0].close()
        with pytest.raises(BlockingIOError):
            mute.accept()


@pytest.mark.parametrize(
    "news", [{"mode": Mode.OBSERVE}, {"policies": False}, {"lock_proof": "trusted"}, {"writers": "none"}]
)
def test_where_nothing_is_to_be_proved_no_lock_service_is_asked(tmp_path: Path, news: dict[str, Any]) -> None:
    """This holds for a table that is only observed, one without a policy, and one whose lock an operator trusts."""
    view = view_of(tmp_path / "one", **{"lock": {**NOBODY_THERE, "url": f"127.0.0.1:{free_port()}"}, **news})
    assert view.lock is None


def test_a_filesystem_lock_beside_a_timeline_of_the_old_layout_cannot_be_seen(tmp_path: Path) -> None:
    """There every commit changes the folder of the lock."""
    lock = {"provider": "filesystem"}
    assert "cannot be seen on a table of version 6" in view_of(tmp_path / "old", lock=lock, version=6).lock.failure
    seen = view_of(tmp_path / "new", lock=lock, version=9).lock
    assert (seen.failure, seen.before == seen.after) == (None, True)


def test_locks_are_called_by_what_tells_them_apart() -> None:
    """What was seen of one lock is not taken for another."""
    keys = {"provider": "zookeeper", "url": "zk:2181", "base_path": "/hudi", "lock_key": "orders"}
    others = [keys, {**keys, "lock_key": "order"}, {**keys, "base_path": "/h"}, {**keys, "url": "zk:2182"}]
    locks: list[Lock] = [ZookeeperLock.model_validate(one) for one in others]

    assert len({called(lock, "/lake/orders") for lock in locks}) == len(others)
    assert called(locks[0], "/lake/orders") == "/hudi/orders of ZooKeeper zk:2181"
    assert all(leaves_traces(lock) for lock in locks)
