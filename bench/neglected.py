"""Looking at a Hudi table that nobody has looked after: thousands of commits on its timeline, a large plan beside."""

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
from lakewarden.planners.formats.hudi.metadata.payloads import read_pieces
from lakewarden.planners.model.instant import Service
from lakewarden.planners.storage import LocalStorage
from tests.support.hudi_look import made, registered
from tests.support.hudi_table import HudiTable, base_file, commit_content

_COMMITS = 2000
_FILES = 100
_PLANNED = 100_000


def measure() -> list[Figure]:
    """Look as the daemon does, in time on a core: at first, with nothing new, and as a question that waits does, by the
    token; then with all that each commit wrote, in memory. A first clean's plan is read in pieces: its memory is held
    against that of the plan decoded whole.
    """
    with tempfile.TemporaryDirectory(prefix="lakewarden-bench-") as folder:
        table = _table(Path(folder))
        wanted, storage, now = registered(table, Service.COMPACTION), LocalStorage(), table.clock.now()
        first = HUDI.observe(wanted, storage, None, now=now)
        again = _cpu(lambda: HUDI.observe(wanted, storage, first, now=now))
        token = _cpu(lambda: HUDI.token(wanted, storage))
        kept, _ = _memory(lambda: THOROUGH.observe(wanted, storage, None, now=now))
        plan = table.timeline / f"{_plan(table)}.clean.requested"
        _, in_pieces = _memory(lambda: sum(1 for _ in read_pieces(storage, str(plan))))
        _, whole = _memory(lambda: opened(plan.read_bytes()).record())
    return [
        figure("neglected_look", again / _COMMITS, "us/commit", judged="ours", goal=("<=", 400)),
        figure(
            "neglected_waiting", token, "us", judged="ratio", goal=("<=", 0.05), baseline=again, ratio=token / again
        ),
        figure("neglected_memory", kept / _COMMITS / _FILES, "B/file", judged="ours", goal=("<=", 60)),
        figure(
            "large_plan_memory",
            in_pieces / 2**20,
            "MiB",
            judged="ratio",
            goal=("<=", 0.2),
            baseline=whole / 2**20,
            ratio=in_pieces / whole,
        ),
    ]


def _table(folder: Path) -> HudiTable:
    table = made(folder)
    content = commit_content(
        {f"p{p}": [base_file(f"group-{p}-{n}", "1") for n in range(_FILES // 10)] for p in range(10)}
    )
    for _ in range(_COMMITS):
        table.commit_write(table.begin_write(heartbeat=False), content=content)
    table.clock.advance(timedelta(minutes=1))
    return table


def _plan(table: HudiTable) -> str:
    files = tuple(f"a-group-of-files-number-{n}-0_0-1-2_20260101000000000.parquet" for n in range(_PLANNED))
    return table.plan_clean(files={"p0": files})


def _cpu(act: Callable[[], object]) -> float:
    """Return the microseconds on a core of the fastest of five."""
    taken = []
    for _ in range(5):
        begun = time.process_time()
        act()
        taken.append((time.process_time() - begun) * 1e6)
    return min(taken)


def _memory(act: Callable[[], object]) -> tuple[int, int]:
    """Return the bytes that what is made takes, and the most that was taken meanwhile."""
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
