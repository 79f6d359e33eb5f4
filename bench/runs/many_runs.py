"""What hundreds of runs leave in the memory of one session worker and its JVM."""

from __future__ import annotations

import shutil
import statistics
import sys
from collections.abc import Sequence

import psutil

from bench.figure import Figure, figure
from bench.runs.granting_pool import GrantingPool, assignment_of, granting_pool
from bench.runs.small_tables import SmallTables, small_tables
from lakewarden.executors.profile import SparkProfile
from lakewarden.planners.model.instant import Service

_EVERY = 20
_BRIEF_RUNS, _BRIEF_EVERY = 8, 2
_NEWEST_ONLY = {"policy": "KEEP_LATEST_FILE_VERSIONS", "file_versions_retained": 1}


def measure(*, runs: int = 500, brief: bool = False) -> list[Figure]:
    """Let one worker compact and clean one small table after another, and read its memory every 20 runs.

    The figures are the slopes of the lines through the readings after the first fifth of the runs. Until then classes
    are loaded, and the heap grows to the size that the work needs. The heap is small, so that it reaches that size. The
    worker is not replaced, as it would be after 500 runs. The baseline is the memory after that first fifth.
    """
    runs, every = (_BRIEF_RUNS, _BRIEF_EVERY) if brief else (runs, _EVERY)
    profile = SparkProfile(
        slots=1, memory="512m", recycle_after=runs + 1, conf={"spark.driver.extraJavaOptions": "-XX:+UseSerialGC"}
    )
    with small_tables() as tables, granting_pool(tables.folder / "pool", profile) as pool:
        seen = _watch(tables, pool, runs, every)
    warm = [(number, *mib) for number, *mib in seen if number >= runs / 5]
    numbers, worker, jvm = zip(*warm, strict=True)
    return [_slope("many_runs_jvm", numbers, jvm, at_most=20), _slope("many_runs_worker", numbers, worker, at_most=2)]


def _watch(tables: SmallTables, pool: GrantingPool, runs: int, every: int) -> list[tuple[int, float, float]]:
    """Return the memory at regular intervals: the number of runs, the MiB of the worker and the MiB of its JVM."""
    ours = psutil.Process().children()
    [(worker, jvm)] = [(child, below) for child in ours for below in child.children() if below.name() == "java"]
    seen = []
    for number in range(2, runs + 1, 2):
        path = tables.copy(f"table-{number:04}")
        clean = assignment_of(tables, path, Service.CLEAN, **_NEWEST_ONLY)
        pool.carry_out([[assignment_of(tables, path), clean]])
        shutil.rmtree(path)
        if number % every == 0:
            seen.append((number, _resident_mib(worker), _resident_mib(jvm)))
            print(
                f"{number} runs: worker {seen[-1][1]:.0f} MiB, JVM {seen[-1][2]:.0f} MiB", file=sys.stderr, flush=True
            )
    return seen


def _slope(name: str, numbers: Sequence[float], mib: Sequence[float], *, at_most: float) -> Figure:
    slope = statistics.linear_regression(numbers, mib).slope * 100
    return figure(name, slope, "MiB per 100 runs", judged="ours", goal=("<=", at_most), baseline=mib[0])


def _resident_mib(process: psutil.Process) -> float:
    resident: int = process.memory_info().rss
    return resident / 2**20
