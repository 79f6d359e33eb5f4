"""What a store of a million runs costs a decision, and what deleting half of them costs a writer beside it."""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from bench.figure import Figure, figure
from lakewarden.planners.model.instant import RunId, Service, Step
from lakewarden.planners.model.table import Table, TableId
from lakewarden.service.control.housekeeping import Keeping, tidy
from lakewarden.service.model.rows import ServiceStateRow
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.store.sql import schema
from lakewarden.service.store.sql.runs import _columns
from lakewarden.service.store.sql.sqlite import open_sqlite
from lakewarden.service.store.sql.store import Store

_RUNS, _SECONDS_ALONE = 1_000_000, 5.0
_BRIEF = (5_000, 0.5)
_TABLES = 500
_START = datetime(2026, 1, 1, tzinfo=UTC)
_EVERY = timedelta(seconds=10)
_COLD = "/lake/table-7#once"
_HOT = "/lake/table-0#once"


def measure(*, brief: bool = False) -> list[Figure]:
    """Fill a SQLite store, a fifth of it with one table's runs, and time the queries of each decision and permit.

    Then delete the older half as the daemon does, beside a writer. The figure is the longest write of that writer. Its
    baseline is the longest write before.
    """
    runs, seconds_alone = _BRIEF if brief else (_RUNS, _SECONDS_ALONE)
    with tempfile.TemporaryDirectory(prefix="lakewarden-bench-") as folder:
        store = open_sqlite(Path(folder) / "lakewarden.db")
        try:
            _fill(store, runs)
            figures = [*_asked(store)]
            alone = _longest_write(store, lambda: time.sleep(seconds_alone))
            beside = _longest_write(store, lambda: _forget(store, runs))
        finally:
            store.close()
    longest = figure("long_history_write_beside", beside, "ms", judged="ours", goal=("<=", 250), baseline=alone)
    return [*figures, longest]


def _fill(store: Store, runs: int) -> None:
    rows = _rows(runs)
    while some := [*islice(rows, 20_000)]:
        with store._write() as connection:  # noqa: SLF001 - a history is not made by way of its port
            connection.execute(sa.insert(schema.runs), some)


def _rows(runs: int) -> Iterator[dict[str, Any]]:
    for number in range(runs):
        table = 0 if number % 5 == 0 else number % _TABLES
        at = _START + _EVERY * number
        run = Run(
            id=RunId(f"run-{number}"),
            table=TableId(f"table-{table}"),
            identity=f"/lake/table-{table}#once",
            service=Service.CLEAN if table and number // _TABLES % 2 else Service.COMPACTION,
            state=RunState.SUCCEEDED,
            reason="5 of 5 commits",
            requested_by="policy",
            created_at=at,
            instant=f"{number:017}",
            epoch=number + 1,
            step=Step.COMMIT,
            started_at=at,
            ended_at=at + _EVERY,
            outcome="completed",
        )
        yield {"number": number, **_columns(run)}


def _asked(store: Store) -> Iterator[Figure]:
    asked: dict[str, Callable[[], object]] = {
        "instants": lambda: store.instants(identity=_COLD, service=Service.CLEAN),
        "instants_of_a_busy_table": lambda: store.instants(identity=_HOT, service=Service.COMPACTION),
        "active": store.active,
    }
    for name, ask in asked.items():
        yield figure(f"long_history_{name}", _median_ms(ask), "ms", judged="ours", goal=("<=", 10))


def _median_ms(ask: Callable[[], object]) -> float:
    taken = []
    for _ in range(9):
        begun = time.perf_counter()
        ask()
        taken.append((time.perf_counter() - begun) * 1000)
    return statistics.median(taken)


def _longest_write(store: Store, meanwhile: Callable[[], None]) -> float:
    over, waits = threading.Event(), [0.0]

    def write() -> None:
        while not over.wait(0.01):
            begun = time.perf_counter()
            service_state = ServiceStateRow(table=TableId("table-7"), service=Service.CLEAN, strikes=len(waits))
            store.keep_row(service_state)
            waits.append((time.perf_counter() - begun) * 1000)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        meanwhile()
    finally:
        over.set()
        writer.join()
    return max(waits)


def _forget(store: Store, runs: int) -> None:
    ids = [TableId(f"table-{number}") for number in range(_TABLES)]
    tidy(
        store,
        registered={table: Table(id=table, format="hudi", location=f"/lake/{table}") for table in ids},
        at=_START + _EVERY * runs,
        keep=Keeping(runs=_EVERY * (runs // 2), acts=timedelta(days=365), changes=timedelta(days=365)),
        pause=threading.Event().wait,
    )
