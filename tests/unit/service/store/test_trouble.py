"""The daemon's own store, a real one on a disk, in trouble: the control thread lives on, nothing is lost or doubled."""

from __future__ import annotations

import resource
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.model.instant import Service, Step
from lakewarden.service.control.housekeeping import AGAIN_SECONDS, EVERY_SECONDS, StoreWatch
from lakewarden.service.model.run import RunState
from lakewarden.service.store.sql.sqlite import open_sqlite
from lakewarden.service.store.sql.store import Store
from tests.support.daemon.daemon_harness import DaemonHarness

FAILURES = ["locked by another process", "its disk takes no more", "read-only"]
WHILE_IT_LASTS = timedelta(minutes=2)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Open a store that does not wait long for a lock."""
    store = open_sqlite(tmp_path / "lakewarden.db", timeout=timedelta(milliseconds=2))
    yield store
    store.close()


@contextmanager
def trouble(store: Store, path: Path, kind: str) -> Iterator[None]:
    """Let the database fail in one way for as long as the bracket is open."""
    match kind:
        case "locked by another process":
            other = sqlite3.connect(path, isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            try:
                yield
            finally:
                other.execute("ROLLBACK")
                other.close()
        case "its disk takes no more":
            limits = resource.getrlimit(resource.RLIMIT_FSIZE)
            written = path.with_name(f"{path.name}-wal").stat().st_size
            resource.setrlimit(resource.RLIMIT_FSIZE, (written, limits[1]))
            try:
                with capture_logs():  # they would go to a file, too
                    yield
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        case _:
            with _told(store, "PRAGMA query_only = ON", "PRAGMA query_only = OFF"):
                yield


@contextmanager
def _told(store: Store, begin: str, end: str) -> Iterator[None]:
    for statement in (begin, end):
        with store._engine.connect() as connection:  # the pool gives the same connection back
            connection.exec_driver_sql(statement)
        if statement is begin:
            yield


def lake_is_compacted_once(harness: DaemonHarness) -> bool:
    return harness.lake.log_files == 0 and len(harness.completed(Service.COMPACTION)) == 1 and harness.at_rest()


@pytest.mark.parametrize("kind", FAILURES)
@pytest.mark.parametrize("step", Step)
def test_a_store_in_trouble_during_any_step_loses_no_run_and_doubles_none(
    tmp_path: Path, store: Store, step: Step, kind: str
) -> None:
    """The run waits for its row to be written, however long that takes, and then goes on by itself."""
    harness = DaemonHarness(tmp_path, store=store)
    harness.write(3)
    run = harness.until_executing(step)
    with trouble(store, tmp_path / "lakewarden.db", kind):
        harness.held_pool.release()
        harness.for_a_while(WHILE_IT_LASTS)
        (row,) = harness.runs()
        assert not row.state.ended
        assert row.epoch == run.epoch
    harness.until(lambda: lake_is_compacted_once(harness))
    assert harness.states() == [RunState.SUCCEEDED]
    assert harness.lake.rows == 3


@pytest.mark.parametrize("kind", FAILURES)
def test_nothing_new_begins_while_the_store_cannot_note_it(tmp_path: Path, store: Store, kind: str) -> None:
    """A run that no row tells of could be run twice. When the store is well, the table is served without being told."""
    harness = DaemonHarness(tmp_path, store=store)
    harness.for_a_while()
    with trouble(store, tmp_path / "lakewarden.db", kind):
        harness.write(3)
        harness.for_a_while(WHILE_IT_LASTS)
        assert harness.runs() == []
        assert harness.pool.capacity().free == harness.slots
        assert harness.lake.log_files == 3
    harness.until(lambda: lake_is_compacted_once(harness), within=timedelta(minutes=15))


def test_a_store_in_trouble_is_not_asked_again_and_again(tmp_path: Path, store: Store) -> None:
    """However many questions are open: twice a second, and one line in the log each time."""
    harness = DaemonHarness(tmp_path, store=store)
    harness.write(3)
    harness.until_executing(Step.EXECUTE)
    with trouble(store, tmp_path / "lakewarden.db", "read-only"), capture_logs() as lines:
        harness.held_pool.release()
        harness.for_a_while(timedelta(minutes=1))
    assert 60 < len([line for line in lines if line["event"] == "store_unavailable"]) < 200


@pytest.mark.long
def test_however_many_tables_wait_for_a_locked_store_a_turn_waits_once(tmp_path: Path) -> None:
    """Who waited in vain speaks for all the others: the control thread shows in time that it is alive."""
    timeout = timedelta(seconds=4)
    store = open_sqlite(tmp_path / "lakewarden.db", timeout=timeout)
    harness = DaemonHarness(tmp_path, store=store, names=[f"t{number}" for number in range(12)], slots=4)
    harness.for_a_while()
    for table in harness.lakes:
        harness.write(3, table)
    with trouble(store, tmp_path / "lakewarden.db", "locked by another process"):
        begun = time.monotonic()
        harness.daemon.turn()
        took = time.monotonic() - begun
        with pytest.raises(TemporaryError, match="another process holds it locked"):
            store.mark_dirty(["/lake/trips"])
        assert not store.active(), "reading goes on"

    assert took < 12 * timeout.total_seconds()  # wall time: in proportion to that of 24 calls that wait
    time.sleep(timeout.total_seconds())
    harness.until(lambda: all(lake.log_files == 0 for lake in harness.lakes.values()), within=timedelta(minutes=15))
    store.close()


@pytest.mark.parametrize("kind", FAILURES)
def test_a_daemon_with_nothing_to_keep_finds_out_that_its_store_cannot_be_written(
    tmp_path: Path, store: Store, kind: str
) -> None:
    """It is not ready, and says which file and why. It goes on turning, and is ready when the store is well again."""
    path = tmp_path / "lakewarden.db"
    harness, watch = DaemonHarness(tmp_path, store=store), StoreWatch(store)
    harness.for_a_while()
    assert harness.status.health().unready == ()
    with trouble(store, path, kind):
        assert watch.look() == AGAIN_SECONDS
        [missing] = harness.status.health().unready
        assert "the store cannot be written" in missing
        assert str(path) in missing
        harness.for_a_while()
        assert harness.status.health().turned_ago < timedelta(seconds=2)
    assert watch.look() == EVERY_SECONDS
    assert harness.status.health().unready == ()


def test_a_store_that_cannot_be_written_is_told_once_and_so_is_its_return(tmp_path: Path, store: Store) -> None:
    """A log that repeats itself each second hides all others."""
    watch = StoreWatch(store)
    with capture_logs() as lines:
        with trouble(store, tmp_path / "lakewarden.db", "read-only"):
            for _ in range(5):
                watch.look()
        while watch.look() != EVERY_SECONDS:  # a call that failed slowly speaks for those right after it
            time.sleep(0.05)
        for _ in range(5):
            watch.look()
    assert [line["event"] for line in lines] == ["store_unwritable", "store_writable_again"]


def test_a_full_disk_under_the_log_ends_nothing() -> None:
    """The line is lost."""
    code = "from lakewarden.service.process import logs; logs.set_up_logs(); import structlog, logging;"
    code += "structlog.get_logger().warning('x' * 9999); logging.warning('y'); print('alive')"
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-c", code], stderr=full, stdout=subprocess.PIPE, text=True, check=False
        )
    assert ended.stdout == "alive\n"


def test_a_damaged_store_ends_the_daemon_with_its_name_and_leaves_the_tables_as_they_are(tmp_path: Path) -> None:
    """It will not heal, and a daemon that cannot trust its rows must not act on them: a person restores it."""
    path = tmp_path / "lakewarden.db"
    store = open_sqlite(path)
    harness = DaemonHarness(tmp_path, store=store)
    harness.write(3)
    harness.until_executing(Step.EXECUTE)
    with store._engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    store._engine.dispose()
    with path.open("r+b") as file:
        file.seek(0)
        file.write(b"\xff" * path.stat().st_size)
    harness.held_pool.release()
    with pytest.raises(PermanentError, match=r"lakewarden\.db"):
        harness.for_a_while()
    assert harness.lake.log_files == 3
