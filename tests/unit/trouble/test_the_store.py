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

from lakewarden.executors.contract import Step
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.model.instant import Service
from lakewarden.service.model.run import RunState
from lakewarden.service.store.sql.sqlite import open_sqlite
from lakewarden.service.store.sql.store import SqlStore
from tests.support.road import Road

TROUBLES = ["locked by another process", "its disk takes no more", "read-only"]
WHILE_IT_LASTS = timedelta(minutes=2)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    """Open a store that does not wait long for a lock."""
    store = open_sqlite(tmp_path / "lakewarden.db", patience=timedelta(milliseconds=2))
    yield store
    store.close()


@contextmanager
def trouble(store: SqlStore, path: Path, kind: str) -> Iterator[None]:
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
def _told(store: SqlStore, begin: str, end: str) -> Iterator[None]:
    for statement in (begin, end):
        with store._engine.connect() as connection:  # the pool gives the same connection back
            connection.exec_driver_sql(statement)
        if statement is begin:
            yield


def lake_is_compacted_once(road: Road) -> bool:
    return road.lake.log_files == 0 and len(road.completed(Service.COMPACTION)) == 1 and road.at_rest()


@pytest.mark.parametrize("kind", TROUBLES)
@pytest.mark.parametrize("step", Step)
def test_a_store_in_trouble_during_any_step_loses_no_run_and_doubles_none(
    tmp_path: Path, store: SqlStore, step: Step, kind: str
) -> None:
    """The run waits for its row to be written, however long that takes, and then goes on by itself."""
    road = Road(tmp_path, store=store)
    road.write(3)
    run = road.until_executing(step)
    with trouble(store, tmp_path / "lakewarden.db", kind):
        road.held_pool.release()
        road.for_a_while(WHILE_IT_LASTS)
        (row,) = road.runs()
        assert not row.state.ended
        assert row.epoch == run.epoch
    road.until(lambda: lake_is_compacted_once(road))
    assert road.states() == [RunState.SUCCEEDED]
    assert road.lake.rows == 3


@pytest.mark.parametrize("kind", TROUBLES)
def test_nothing_new_begins_while_the_store_cannot_note_it(tmp_path: Path, store: SqlStore, kind: str) -> None:
    """A run that no row tells of could be run twice. When the store is well, the table is served without being told."""
    road = Road(tmp_path, store=store)
    road.for_a_while()
    with trouble(store, tmp_path / "lakewarden.db", kind):
        road.write(3)
        road.for_a_while(WHILE_IT_LASTS)
        assert road.runs() == []
        assert road.pool.room().free == road.slots
        assert road.lake.log_files == 3
    road.until(lambda: lake_is_compacted_once(road), within=timedelta(minutes=15))


def test_a_store_in_trouble_is_not_asked_again_and_again(tmp_path: Path, store: SqlStore) -> None:
    """However many questions are open: twice a second, and one line in the log each time."""
    road = Road(tmp_path, store=store)
    road.write(3)
    road.until_executing(Step.EXECUTE)
    with trouble(store, tmp_path / "lakewarden.db", "read-only"), capture_logs() as lines:
        road.held_pool.release()
        road.for_a_while(timedelta(minutes=1))
    assert 60 < len([line for line in lines if line["event"] == "store_trouble"]) < 200


def test_however_many_tables_wait_for_a_locked_store_a_turn_waits_once(tmp_path: Path) -> None:
    """Who waited in vain speaks for all the others: the control thread shows in time that it is alive."""
    patience = timedelta(milliseconds=500)
    store = open_sqlite(tmp_path / "lakewarden.db", patience=patience)
    road = Road(tmp_path, store=store, names=[f"t{number}" for number in range(12)], slots=4)
    road.for_a_while()
    for table in road.lakes:
        road.write(3, table)
    with trouble(store, tmp_path / "lakewarden.db", "locked by another process"):
        begun = time.monotonic()
        road.daemon.turn()
        took = time.monotonic() - begun
        with pytest.raises(TemporaryError, match="another process holds it locked"):
            store.mark_dirty(["/lake/trips"])
        assert time.monotonic() - begun < 4 * patience.total_seconds()
        assert not store.active(), "reading goes on"

    assert took < 4 * patience.total_seconds(), "24 calls, one wait"
    time.sleep(patience.total_seconds())
    road.until(lambda: all(lake.log_files == 0 for lake in road.lakes.values()), within=timedelta(minutes=15))
    store.close()


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
    road = Road(tmp_path, store=store)
    road.write(3)
    road.until_executing(Step.EXECUTE)
    with store._engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    store._engine.dispose()
    with path.open("r+b") as file:
        file.seek(0)
        file.write(b"\xff" * path.stat().st_size)
    road.held_pool.release()
    with pytest.raises(PermanentError, match=r"lakewarden\.db"):
        road.for_a_while()
    assert road.lake.log_files == 3
