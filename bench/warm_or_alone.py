"""Ten small tables served one after another: through the warm pool, and with one new session process per table."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from bench.figure import Figure, figure
from bench.hands import hands
from bench.one_session import run_alone
from lakewarden.executors.contract import Assignment
from lakewarden.executors.profile import SparkProfile

_TABLES = 10
_WARMING_UP = 5


def compared(name: str, of_format: str, make: Callable[[str], Assignment], *, folder: Path) -> Figure:
    """Return how much faster the pool is. `make` makes a table of the given name with work for a run.

    The pool is warm: it has served five tables before.
    """
    ours = _through_the_pool(of_format, make, folder)
    baseline = _with_a_session_each(make, folder)
    return figure(
        name,
        ours,
        f"s for {_TABLES} tables",
        judged="ratio",
        goal=(">=", 5),
        baseline=baseline,
        ratio=baseline / ours,
    )


def _through_the_pool(of_format: str, make: Callable[[str], Assignment], folder: Path) -> float:
    with hands(folder / "pool", SparkProfile(formats=(of_format,))) as pool:
        pool.carry_out([[make(f"warm-up-{number}")] for number in range(_WARMING_UP)])
        return pool.carry_out([[make(f"pooled-{number}")] for number in range(_TABLES)])


def _with_a_session_each(make: Callable[[str], Assignment], folder: Path) -> float:
    wanted = [make(f"alone-{number}") for number in range(_TABLES)]
    begun = time.monotonic()
    for assignment in wanted:
        run_alone(assignment, log=folder / "alone.log")
    return time.monotonic() - begun
