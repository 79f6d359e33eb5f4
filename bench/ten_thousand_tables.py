"""What 10,000 registered tables cost a daemon at a cadence of 10 s while nothing happens to them."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

import psutil

from bench.figure import Figure, figure
from bench.quiet_tables import watched, write_quiet_table
from bench.served import served

_TABLES = 10_000
_SETTLE_SECONDS = 30
_MEASURE_SECONDS = 60


def measure() -> list[Figure]:
    """Let a real daemon watch the tables, and measure the one process: its share of a core and its memory.

    The tables may act, with a compaction and a clean policy that are not due; the session worker is another process.
    """
    folder = Path(tempfile.mkdtemp(prefix="lakewarden-bench-"))
    try:
        for number in range(_TABLES):
            write_quiet_table(folder / "tables" / f"t{number:05}")
        with served(folder / "daemon", watched(folder / "tables", mode="act", poll="10s")) as daemon:
            daemon.until(lambda: daemon.get(f"/v1/tables/t{_TABLES - 1:05}")["observed_at"] is not None)
            time.sleep(_SETTLE_SECONDS)
            process = psutil.Process(daemon.process.pid)
            before, begun = process.cpu_times(), time.monotonic()
            time.sleep(_MEASURE_SECONDS)
            after, spent = process.cpu_times(), time.monotonic() - begun
            share = (after.user + after.system - before.user - before.system) / spent
            memory = process.memory_info().rss / 2**20
    finally:
        shutil.rmtree(folder)
    return [
        figure("ten_thousand_tables_cpu", share * 100, "% of a core", judged="ours", goal=("<=", 10)),
        figure("ten_thousand_tables_memory", memory, "MiB resident", judged="ours", goal=("<=", 400)),
    ]
