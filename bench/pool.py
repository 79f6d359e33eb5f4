"""Ten small tables compacted one after another: through the warm pool, and with one new session process per table."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench.figure import Figure, figure
from bench.small_tables import SmallTables, small_tables
from lakewarden.executors.contract import Asked, Assignment, Ended, Granted, PoolEvent, Succeeded
from lakewarden.executors.pool import WorkerPool
from lakewarden.executors.profile import SparkProfile
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import TableId

_TABLES = 10
_WARMING_UP = 5


def measure() -> list[Figure]:
    """Compact two sets of ten tables under the same lock. The pool is warm: it has compacted five tables before."""
    with small_tables() as tables:
        ours = _through_the_pool(tables)
        baseline = _with_a_session_each(tables)
    return [
        figure(
            "pool",
            ours,
            f"s for {_TABLES} tables",
            judged="ratio",
            goal=(">=", 5),
            baseline=baseline,
            ratio=baseline / ours,
        )
    ]


def assignment_of(tables: SmallTables, path: Path) -> Assignment:
    """Return the compaction of one table."""
    return Assignment(
        run=RunId(path.name),
        epoch=1,
        table=TableId(path.name),
        format="hudi",
        location=str(path),
        service=Service.COMPACTION,
        table_options=tables.options(path.name),
    )


def _through_the_pool(tables: SmallTables) -> float:
    events: queue.SimpleQueue[PoolEvent] = queue.SimpleQueue()
    pool = WorkerPool(SparkProfile(), directory=tables.folder / "pool")
    pool.start(events.put)
    try:
        while not pool.room().free:
            events.get(timeout=120)
        _compact(pool, events, [assignment_of(tables, tables.copy(f"warm-up-{n}")) for n in range(_WARMING_UP)])
        wanted = [assignment_of(tables, tables.copy(f"pooled-{number}")) for number in range(_TABLES)]
        return _compact(pool, events, wanted)
    finally:
        pool.close()


def _compact(pool: WorkerPool, events: queue.SimpleQueue[PoolEvent], wanted: Sequence[Assignment]) -> float:
    """Compact one table after another, granting every step; returns the seconds it took."""
    begun = time.monotonic()
    for assignment in wanted:
        pool.submit(assignment)
        while not isinstance(event := events.get(timeout=300), Ended):
            if isinstance(event, Asked):
                pool.answer(event.run, event.step, Granted())
        assert isinstance(event.outcome, Succeeded), f"{assignment.table}: {event.outcome}"
    return time.monotonic() - begun


def _with_a_session_each(tables: SmallTables) -> float:
    wanted = [assignment_of(tables, tables.copy(f"alone-{number}")) for number in range(_TABLES)]
    begun = time.monotonic()
    with (tables.folder / "alone.log").open("ab") as log:
        for assignment in wanted:
            told = json.dumps({"location": assignment.location, "options": dict(assignment.table_options)})
            command = [sys.executable, "-m", "bench.one_session", told]
            subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=True)
    return time.monotonic() - begun
