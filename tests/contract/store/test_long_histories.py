"""A history of a million runs costs a decision no more than one of a hundred. An index answers, or no query is
needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import TableId
from lakewarden.service.model.run import RunState
from lakewarden.service.store.sql import schema
from lakewarden.service.store.sql.postgres import open_postgres
from lakewarden.service.store.sql.runs import _columns
from lakewarden.service.store.sql.store import Store
from tests.support.store.postgres import PostgresServer
from tests.support.store.stores import new_postgres, new_sqlite
from tests.support.values import IDENTITY, NOW, a_run

OF_A_LEASE = {"identity": str(IDENTITY), "service": Service.COMPACTION}
TRIPS = TableId("trips")


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Return each database in turn, with a history long enough to choose a query plan by."""
    if request.param == "sqlite":
        opened = new_sqlite(tmp_path / "lakewarden.db")
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        opened = open_postgres(new_postgres(server))
    with opened._write() as connection:
        connection.execute(sa.insert(schema.runs), [a_row(number) for number in range(600)])
    yield opened
    opened.close()


def a_row(number: int) -> dict[str, Any]:
    """Return the row of a run that has ended."""
    run = a_run(f"r{number}", state=RunState.SUCCEEDED, instant=f"{number:08}", ended_at=NOW - timedelta(hours=1))
    return {"number": number, **_columns(run)}


def plans(store: Store, ask: Callable[[], Any]) -> list[str]:
    """Return the query plan of each statement on runs in a call."""
    found: list[str] = []

    def explain(connection: sa.Connection, cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if "runs" not in statement or "EXPLAIN" in statement or statement.startswith("INSERT"):
            return
        if connection.dialect.name == "sqlite":
            cursor.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
            found.append("\n".join(row[-1] for row in cursor.fetchall()))
        else:
            for kind in ("seqscan", "bitmapscan"):  # few rows are faster to read than an index
                cursor.execute(f"SET enable_{kind} = off")
            cursor.execute(f"EXPLAIN {statement}", parameters)
            found.append("\n".join(row[0] for row in cursor.fetchall()))
            for kind in ("seqscan", "bitmapscan"):
                cursor.execute(f"RESET enable_{kind}")

    sa.event.listen(store._engine, "before_cursor_execute", explain)
    try:
        ask()
    finally:
        sa.event.remove(store._engine, "before_cursor_execute", explain)
    return found


@pytest.mark.parametrize(
    ("ask", "index"),
    [
        pytest.param(lambda s: s.instants(**OF_A_LEASE), "runs_by_lease", id="which plans are ours"),
        pytest.param(lambda s: s.active(), "open_runs|one_active_run", id="what is under way"),
        pytest.param(lambda s: s.request(a_run("new")), "one_active_run|open_runs", id="asking for a run"),
        pytest.param(lambda s: s.runs(limit=10), "runs_by_number", id="the newest runs"),
        pytest.param(lambda s: s.runs(table=TRIPS, service=Service.CLEAN), "runs_by_table", id="those of a service"),
        pytest.param(lambda s: s.newest_succeeded([(TRIPS, Service.CLEAN)]), "runs_by_table", id="the last success"),
    ],
)
def test_what_is_asked_at_each_decision_is_answered_by_an_index(
    store: Store, ask: Callable[[Store], Any], index: str
) -> None:
    """The order comes from the index too. No statement reads all runs, and none sorts them."""
    for plan in plans(store, lambda: ask(store)):
        assert any(one in plan for one in index.split("|")), plan
        assert "TEMP B-TREE" not in plan
        assert "Sort" not in plan or "one_active_run" in plan, "only of the few that are under way"


def test_no_step_of_forgetting_goes_through_all_runs(store: Store) -> None:
    """Each step begins where the last one has ended."""
    found = plans(store, lambda: [*store.forget(registered={TRIPS: "/lake/trips"}, at=NOW, keep=timedelta(minutes=1))])

    assert found
    for plan in found:
        for line in plan.splitlines():
            whole = line.strip().startswith("SCAN runs") or "Seq Scan on runs" in line
            assert not whole or "open_runs" in line, plan
            assert "TEMP B-TREE" not in line, plan
    assert [run.id for run in store.runs()] == [RunId("r599")]
