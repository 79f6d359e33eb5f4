"""Ten small tables compacted one after another: through the warm pool, and with one new session process per table."""

from __future__ import annotations

import time

from bench.figure import Figure, figure
from bench.hands import assignment_of, hands
from bench.one_session import run_alone
from bench.small_tables import SmallTables, small_tables
from lakewarden.executors.profile import SparkProfile

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


def _through_the_pool(tables: SmallTables) -> float:
    with hands(tables.folder / "pool", SparkProfile()) as pool:
        pool.carry_out([[assignment_of(tables, tables.copy(f"warm-up-{n}"))] for n in range(_WARMING_UP)])
        return pool.carry_out([[assignment_of(tables, tables.copy(f"pooled-{n}"))] for n in range(_TABLES)])


def _with_a_session_each(tables: SmallTables) -> float:
    wanted = [assignment_of(tables, tables.copy(f"alone-{number}")) for number in range(_TABLES)]
    begun = time.monotonic()
    for assignment in wanted:
        run_alone(assignment, log=tables.folder / "alone.log")
    return time.monotonic() - begun
