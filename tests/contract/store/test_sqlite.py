"""What the SQLite store promises beyond the contract: its file survives, and damaged content is never guessed."""

from __future__ import annotations

import gc
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.model.instant import RunId, Service, Step
from lakewarden.service.model.run import RunState
from lakewarden.service.store.sql.sqlite import open_sqlite
from lakewarden.service.store.sql.store import Store
from tests.support.store.replicas import ME, take_ownership
from tests.support.values import NOW, a_run

KILLED_AFTER = """
import sys
from pathlib import Path
from lakewarden.planners.model.instant import Step
from lakewarden.planners.model.instant import RunId
from lakewarden.service.model.run import RunState
from lakewarden.service.store.sql.sqlite import open_sqlite
from lakewarden.service.store.sql.store import Store
from tests.support.store.replicas import ME, take_ownership
from tests.support.values import NOW, a_run

store = open_sqlite(Path(sys.argv[1]))
acts = [
    lambda: store.request(a_run("r1")),
    lambda: store.take_lease(RunId("r1"), owner=take_ownership(store, "/lake/trips"), at=NOW),
    lambda: store.progress(RunId("r1"), epoch=1, instant="00000010", step=Step.COMMIT, state=RunState.COMMITTING),
    lambda: store.end(RunId("r1"), epoch=1, state=RunState.SUCCEEDED, outcome="completed", at=NOW),
]
for act in acts[: int(sys.argv[2])]:
    act()
print("returned", flush=True)
sys.stdin.read()
"""
STATES = [RunState.QUEUED, RunState.RUNNING, RunState.COMMITTING, RunState.SUCCEEDED]


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    """Return the rows in the file, by a reader that does not use the code under test."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def test_the_file_holds_what_was_written(tmp_path: Path) -> None:
    """The test reads it with sqlite3 alone, while the store is open: rows, epochs, and times in UTC."""
    path = tmp_path / "lakewarden.db"
    store = open_sqlite(path)
    run = store.take_lease(store.request(a_run("r1")).id, owner=take_ownership(store, "/lake/trips"), at=NOW)
    store.progress(run.id, epoch=1, instant="00000010", step=Step.PLAN)

    assert rows(path, "SELECT id, table_id, service, state, instant, epoch, step, created_at, figures FROM runs") == [
        ("r1", "trips", "compaction", "RUNNING", "00000010", 1, "plan", "2026-05-01 12:00:00.000000", "{}")
    ]
    assert rows(path, "SELECT identity, service, epoch, owner FROM leases") == [
        ("/lake/trips#once", "compaction", 1, "me")
    ]
    store.close()


def test_what_is_acknowledged_survives_a_power_cut(tmp_path: Path) -> None:
    """The store uses a write-ahead log, and synchronises it before a call returns."""
    path = tmp_path / "lakewarden.db"
    store = open_sqlite(path)

    assert rows(path, "PRAGMA journal_mode") == [("wal",)]
    with store._engine.connect() as connection:  # this setting is for our connections only
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
    store.close()


@pytest.mark.parametrize("acts", range(1, len(STATES) + 1))
def test_what_a_call_has_returned_survives_the_killing_of_its_process(tmp_path: Path, acts: int) -> None:
    """SIGKILL comes right after each call. The row has the last acknowledged state, and the store works."""
    path = tmp_path / "lakewarden.db"
    with subprocess.Popen(
        [sys.executable, "-c", KILLED_AFTER, str(path), str(acts)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "returned\n"
        writer.kill()

    store = open_sqlite(path)
    run = store.run(RunId("r1"))
    assert run is not None
    assert run.state is STATES[acts - 1]
    assert run.instant == ("00000010" if acts >= 3 else None)
    assert store.request(a_run("r2")).id == ("r2" if run.state.ended else "r1")
    store.close()


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    """The error is one sentence, and the file is not touched."""
    path = tmp_path / "lakewarden.db"
    path.write_bytes(b"PK\x03\x04 somebody else's file " * 100)
    before = path.read_bytes()

    with pytest.raises(PermanentError, match="file is not a database"):
        open_sqlite(path)

    gc.collect()
    assert path.read_bytes() == before


def test_a_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    """The store creates a file, not the folders above it."""
    with pytest.raises(PermanentError, match="cannot be opened"):
        open_sqlite(tmp_path / "nowhere" / "lakewarden.db")


def test_any_path_may_hold_the_store(tmp_path: Path) -> None:
    """Characters with a meaning in addresses are ordinary in file names."""
    path = tmp_path / "what? #1 100%.db"

    open_sqlite(path).close()

    assert path.exists()
    assert rows(path, "SELECT count(*) FROM runs") == [(0,)]


def test_a_store_that_cannot_be_written_is_temporary_trouble(tmp_path: Path) -> None:
    """The daemon waits and tries again. Nothing of the failed call is stored."""
    store = open_sqlite(tmp_path / "lakewarden.db")
    run = store.request(a_run("r1"))
    take_ownership(store, "/lake/trips")
    read_only = _told(store, "PRAGMA query_only = ON", "PRAGMA query_only = OFF")
    with read_only, pytest.raises(TemporaryError, match="does not answer: it is read-only"):
        store.take_lease(run.id, owner=ME, at=NOW)

    assert store.run(run.id) == run
    assert store.take_lease(run.id, owner=ME, at=NOW).epoch == 1
    store.close()


def test_a_full_disk_is_temporary_trouble(tmp_path: Path) -> None:
    """What was acknowledged stays and can be read meanwhile. With space again the store works."""
    path = tmp_path / "lakewarden.db"
    store = open_sqlite(path)
    pages = rows(path, "PRAGMA page_count")[0][0]
    with _told(store, f"PRAGMA max_page_count = {pages}", "PRAGMA max_page_count = 1000000"):
        with pytest.raises(TemporaryError, match="its disk is full: free some space"):
            store.request(a_run("r1", reason="x" * 100_000))
        assert store.active() == []

    assert store.request(a_run("r1")).id == "r1"
    assert rows(path, "PRAGMA integrity_check") == [("ok",)]
    store.close()


def test_a_store_that_another_process_holds_is_waited_for_and_no_longer_than_told(tmp_path: Path) -> None:
    """A user has opened the file by hand and begun to write. Reading still works."""
    path = tmp_path / "lakewarden.db"
    store = open_sqlite(path, timeout=timedelta(milliseconds=100))
    run = store.request(a_run("r1"))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(TemporaryError, match="another process holds it locked") as refused:
            store.request(a_run("r2", service=Service.CLEAN))
        assert refused.value.delay > timedelta()
        assert store.active() == [run]
        with pytest.raises(TemporaryError, match="another process holds it locked"):
            store.request(a_run("r2", service=Service.CLEAN))  # at once: one call has waited for all
        other.execute("COMMIT")

    time.sleep(0.1)
    assert store.request(a_run("r2", service=Service.CLEAN)).id == "r2"
    store.close()


def test_a_damaged_store_is_refused(tmp_path: Path) -> None:
    """It is refused at the start if the damage shows then, else when it is read. Nothing is guessed."""
    path = tmp_path / "lakewarden.db"
    store = open_sqlite(path)
    store.request(a_run("r1"))
    store.close()
    whole = path.read_bytes()
    schema_page = 100  # after the file's header

    path.write_bytes(whole[:schema_page] + b"\xff" * (len(whole) - schema_page))
    with pytest.raises(PermanentError, match="is damaged: stop the daemon and replace it by its last backup"):
        open_sqlite(path)

    path.write_bytes(whole)
    store = open_sqlite(path)
    store._engine.dispose()  # no connection has the pages in memory
    root = rows(path, "SELECT rootpage FROM sqlite_master WHERE name = 'runs'")[0][0]
    size = rows(path, "PRAGMA page_size")[0][0]
    assert isinstance(root, int)
    assert isinstance(size, int)
    path.write_bytes(whole[: (root - 1) * size] + b"\xff" * size + whole[root * size :])
    with pytest.raises(PermanentError, match="is damaged"):
        store.runs()
    store.close()


@contextmanager
def _told(store: Store, before: str, after: str) -> Iterator[None]:
    """Run a statement on the pool's one connection, and its reverse at the end."""
    with store._engine.connect() as connection:
        connection.exec_driver_sql(before)
    yield
    with store._engine.connect() as connection:
        connection.exec_driver_sql(after)


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_nothing_is_acknowledged_that_is_written_into_a_deleted_file(tmp_path: Path, how: str) -> None:
    """SQLite would go on in the open file, and all of it would be lost with the daemon. A file that is back is used."""
    path, aside = tmp_path / "lakewarden.db", tmp_path / "aside.db"
    with closing(open_sqlite(path)) as store:
        store.pause(None, reason="one", at=NOW)
        path.rename(aside)
        if how == "replaced":
            path.write_bytes(aside.read_bytes())
        for act in (lambda: store.pause(None, reason="two", at=NOW), lambda: store.request(a_run("r1"))):
            with pytest.raises(TemporaryError, match="was moved away or replaced"):
                act()
        path.unlink(missing_ok=True)
        aside.rename(path)
        store.pause(None, reason="three", at=NOW)
    assert rows(path, "SELECT reason FROM pauses") == [("three",)]


def test_the_file_of_another_program_is_refused_in_one_line(tmp_path: Path) -> None:
    """It has tables of the same names. It stays as it is."""
    path = tmp_path / "lakewarden.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE runs (x)")
        connection.commit()
    tables = "SELECT sql FROM sqlite_master ORDER BY sql"
    before = rows(path, tables)
    with pytest.raises(PermanentError, match=r"tables of another program.*point data_dir elsewhere") as refused:
        open_sqlite(path)
    assert len(str(refused.value).splitlines()) == 1
    assert rows(path, tables) == before
