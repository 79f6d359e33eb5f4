"""Ten small tables serviced in the warm pool with its slots, and with one new session process per table."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from bench.figure import Figure, figure
from bench.runs.granting_pool import granting_pool
from bench.runs.one_session import run_alone
from lakewarden.executors.contract import Assignment
from lakewarden.executors.profile import SparkProfile

_TABLES, _WARMING_UP = 10, 5
_BRIEF = (1, 1)


def compared(name: str, of_format: str, make: Callable[[str], Assignment], *, folder: Path, brief: bool) -> Figure:
    """Return how much faster the pool is. `make` creates a table of the given name with work for a run.

    The pool is warm: it has serviced five tables before (`brief`: one). It has the slots of a profile without settings.
    The processes run one after another.
    """
    tables, warming_up = _BRIEF if brief else (_TABLES, _WARMING_UP)
    profile = SparkProfile(formats=(of_format,))
    with granting_pool(folder / "pool", profile) as pool:
        pool.carry_out([[make(f"warm-up-{number}")] for number in range(warming_up)])
        ours = pool.carry_out([[make(f"pooled-{number}")] for number in range(tables)], at_once=profile.slots)
    baseline = _with_a_session_each(make, folder, tables)
    return figure(
        name,
        ours,
        f"s for {tables} tables",
        judged="ratio",
        goal=(">=", 10),
        baseline=baseline,
        ratio=baseline / ours,
    )


def _with_a_session_each(make: Callable[[str], Assignment], folder: Path, tables: int) -> float:
    wanted = [make(f"alone-{number}") for number in range(tables)]
    begun = time.monotonic()
    for assignment in wanted:
        run_alone(assignment, log=folder / "alone.log")
    return time.monotonic() - begun
