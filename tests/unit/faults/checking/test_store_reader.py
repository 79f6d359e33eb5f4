"""The store reader reads the rows of a store by SQL of its own."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from faults.checking.evidence import read_intervals, read_runs, read_shared_runs
from faults.checking.store_reader import PostgresStoreReader, SqliteStoreReader
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import TableId
from lakewarden.service.model.replica import Replica, ReplicaId
from lakewarden.service.model.rows import DecisionRow
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.store.settings import DatabaseSettings
from lakewarden.service.store.sql.postgres import open_postgres
from lakewarden.service.store.sql.sqlite import open_sqlite
from lakewarden.service.store.sql.store import Store
from tests.support.store.postgres import running_postgres

NOW = datetime(2026, 1, 1, tzinfo=UTC)
US = ReplicaId("host:42:abc")


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[tuple[Store, Path]]:
    """Return a store in a file."""
    store = open_sqlite(tmp_path / "db")
    yield store, tmp_path / "db"
    store.close()


@pytest.fixture(scope="module")
def postgres() -> Iterator[tuple[Store, str]]:
    """Return a store on a server."""
    with running_postgres() as server:
        url = server.make_database()
        store = open_postgres(DatabaseSettings(url=url))
        yield store, url
        store.close()


def filled(store: Store) -> None:
    store.join(Replica(id=US, url=""), lease=timedelta(minutes=5))
    store.share(US, locations=["/t"], busy=[])
    for number, service in enumerate((Service.CLEAN, Service.COMPACTION), start=1):
        store.request(
            Run(
                id=RunId(f"r{number}"),
                table=TableId("orders"),
                identity="/t",
                service=service,
                state=RunState.QUEUED,
                reason="",
                requested_by="policy",
                created_at=NOW,
            )
        )
    blocked = DecisionRow(
        table=TableId("orders"),
        service=Service.CLEAN,
        decision="Blocked",
        reason="backing off",
        remedy=None,
        again_at=None,
        decided_at=NOW,
    )
    store.decided([blocked])


def test_an_sqlite_store_is_read_beside_its_daemon(sqlite: tuple[Store, Path]) -> None:
    """The test compares the active runs, the blocked services, and the rows for the checker."""
    store, path = sqlite
    filled(store)
    store_reader = SqliteStoreReader(path)
    assert store_reader.active() == {"r1", "r2"}
    assert store_reader.blocked() == {"clean": "backing off"}
    assert [(run.id, run.state, run.ended) for run in read_runs(path)] == [
        ("r1", "QUEUED", False),
        ("r2", "QUEUED", False),
    ]


def test_before_its_daemon_has_made_it_an_sqlite_store_is_empty(tmp_path: Path) -> None:
    """On a busy machine the first writer commits before the daemon has a store. Without its tables it is empty, too."""
    path = tmp_path / "db"
    store_reader = SqliteStoreReader(path)
    assert store_reader.active() == frozenset()
    path.touch()
    assert store_reader.blocked() == {}
    path.unlink()
    store = open_sqlite(path)
    filled(store)
    assert store_reader.active() == {"r1", "r2"}
    store.close()


def test_an_sqlite_store_that_has_gone_is_no_empty_one(sqlite: tuple[Store, Path]) -> None:
    """Otherwise a trial would end as if every run had ended."""
    store, path = sqlite
    filled(store)
    store_reader = SqliteStoreReader(path)
    assert store_reader.active()
    for file in path.parent.glob("db*"):
        file.unlink()
    with pytest.raises(sqlite3.OperationalError, match="unable to open database file"):
        store_reader.active()


@pytest.mark.long
def test_a_postgres_store_tells_besides_who_owns_the_table(postgres: tuple[Store, str]) -> None:
    """A replica with an expired lease owns nothing."""
    store, url = postgres
    filled(store)
    store_reader = PostgresStoreReader(url)
    assert store_reader.active() == {"r1", "r2"}
    assert store_reader.blocked() == {"clean": "backing off"}
    assert [run.id for run in read_shared_runs(url)] == ["r1", "r2"]
    assert store_reader.holder() == US
    store.leave(US)
    assert store_reader.holder() is None


# The gathered evidence equals the content of a store's rows, and of the executors' records.


def told(file: Path, *lines: dict[str, Any]) -> Path:
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def step(what: str, at: float, *, pid: int = 10, run: str = "r1") -> dict[str, Any]:
    facts = {"run": run, "epoch": 1, "table": "orders", "service": "clean", "instant": "5", "step": "commit"}
    return {"what": what, "at": at, "pid": pid, **facts}


def test_a_step_lasts_from_its_beginning_to_its_end(tmp_path: Path) -> None:
    """Its worker recorded both times. If its JVM was never seen dead, nothing is guessed in favour of our code."""
    [interval] = read_intervals(told(tmp_path / "witness", step("begin", 1.0), step("end", 2.5)))
    assert (interval.run, interval.instant, interval.begun, interval.until) == ("r1", "5", 1.0, 2.5)
    [interval] = read_intervals(told(tmp_path / "witness", step("begin", 1.0)))
    assert interval.until == math.inf


def test_a_step_that_was_cut_off_lasts_until_its_jvm_was_last_seen_alive(tmp_path: Path) -> None:
    """The death of another JVM does not count."""
    lines = [
        {"what": "session", "at": 0.5, "pid": 10, "jvm": 11},
        {"what": "session", "at": 0.6, "pid": 20, "jvm": 21},
        step("begin", 1.0),
        {"what": "dead", "at": 2.6, "pid": 1, "jvm": 21, "alive_at": 2.5},
        {"what": "dead", "at": 4.1, "pid": 1, "jvm": 11, "alive_at": 4.0},
    ]
    [interval] = read_intervals(told(tmp_path / "witness", *lines))
    assert interval.until == 4.0


def test_the_same_worker_may_begin_the_same_step_of_another_run(tmp_path: Path) -> None:
    """The runs are in different slots of one worker."""
    lines = [step("begin", 1, run="r1"), step("begin", 2, run="r2"), step("end", 3, run="r1"), step("end", 4, run="r2")]
    intervals = read_intervals(told(tmp_path / "witness", *lines))
    assert [(i.run, i.begun, i.until) for i in intervals] == [("r1", 1, 3), ("r2", 2, 4)]


def test_the_rows_of_a_store_are_read_in_the_order_of_their_requests(tmp_path: Path) -> None:
    """The test reads the database itself, without the code that wrote it."""
    with sqlite3.connect(tmp_path / "db") as db:
        db.execute("CREATE TABLE runs (id, number, identity, service, state, instant, epoch, ended_at, outcome)")
        db.execute("INSERT INTO runs VALUES ('r2', 2, 't1', 'clean', 'RUNNING', NULL, 4, NULL, NULL)")
        db.execute(
            "INSERT INTO runs VALUES ('r1', 1, 't1', 'clean', 'SUCCEEDED', '5', 3, '2026-01-01', 'nothing to do: none')"
        )
    db.close()
    first, second = read_runs(tmp_path / "db")
    assert (first.id, first.state, first.instant, first.epoch, first.ended) == ("r1", "SUCCEEDED", "5", 3, True)
    assert (second.id, second.ended) == ("r2", False)
    assert (first.idle, second.idle) == (True, False)
