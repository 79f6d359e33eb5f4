"""Observations of a Hudi table without any service for a long time: thousands of commits and a large plan."""

from __future__ import annotations

import gc
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from bench.figure import Figure, figure
from lakewarden.planners.decoding.avro import opened
from lakewarden.planners.formats.hudi import HUDI, THOROUGH
from lakewarden.planners.formats.hudi.metadata.payloads import read_chunks
from lakewarden.planners.model.instant import Service
from lakewarden.planners.storage import LocalStorage
from tests.support.hudi.hudi_look import made, registered
from tests.support.hudi.hudi_table import HudiTable, base_file, commit_content

_COMMITS, _PLANNED = 2000, 100_000
_BRIEF = (100, 2000)
_FILES = 100


def measure(*, brief: bool = False) -> list[Figure]:
    """Observe as the daemon does, in time on a core: for the first time; with nothing new; and by the token, as a
    waiting question does. Then measure the memory of all that each commit wrote. The plan of a first clean is read in
    pieces. Its memory is compared with that of the plan decoded whole.
    """
    commits, planned = _BRIEF if brief else (_COMMITS, _PLANNED)
    with tempfile.TemporaryDirectory(prefix="lakewarden-bench-") as folder:
        table = _table(Path(folder), commits)
        wanted, storage, now = registered(table, Service.COMPACTION), LocalStorage(), table.clock.now()
        first = HUDI.observe(wanted, storage, None, now=now)
        again = _cpu(lambda: HUDI.observe(wanted, storage, first, now=now))
        token = _cpu(lambda: HUDI.token(wanted, storage))
        kept, _ = _memory(lambda: THOROUGH.observe(wanted, storage, None, now=now))
        plan = table.timeline / f"{_plan(table, planned)}.clean.requested"
        _, in_chunks = _memory(lambda: sum(1 for _ in read_chunks(storage, str(plan))))
        _, whole = _memory(lambda: opened(plan.read_bytes()).record())
    return [
        figure("neglected_look", again / commits, "us/commit", judged="ours", goal=("<=", 400)),
        figure(
            "neglected_waiting", token, "us", judged="ratio", goal=("<=", 0.05), baseline=again, ratio=token / again
        ),
        figure("neglected_memory", kept / commits / _FILES, "B/file", judged="ours", goal=("<=", 60)),
        figure(
            "large_plan_memory",
            in_chunks / 2**20,
            "MiB",
            judged="ratio",
            goal=("<=", 0.2),
            baseline=whole / 2**20,
            ratio=in_chunks / whole,
        ),
    ]


def _table(folder: Path, commits: int) -> HudiTable:
    table = made(folder)
    content = commit_content(
        {f"p{p}": [base_file(f"group-{p}-{n}", "1") for n in range(_FILES // 10)] for p in range(10)}
    )
    for _ in range(commits):
        table.commit_write(table.begin_write(heartbeat=False), content=content)
    table.clock.advance(timedelta(minutes=1))
    return table


def _plan(table: HudiTable, planned: int) -> str:
    files = tuple(f"a-group-of-files-number-{n}-0_0-1-2_20260101000000000.parquet" for n in range(planned))
    return table.plan_clean(files={"p0": files})


def _cpu(act: Callable[[], object]) -> float:
    """Return the microseconds on a core of the fastest of five calls."""
    taken = []
    for _ in range(5):
        begun = time.process_time()
        act()
        taken.append((time.process_time() - begun) * 1e6)
    return min(taken)


def _memory(act: Callable[[], object]) -> tuple[int, int]:
    """Return the bytes that the result takes, and the most that was taken meanwhile."""
    gc.collect()
    tracemalloc.start()
    try:
        made_of_it = act()
        gc.collect()
        kept, peak = tracemalloc.get_traced_memory()
        del made_of_it
    finally:
        tracemalloc.stop()
    return kept, peak
