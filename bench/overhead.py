"""The daemon's own share of a run, beyond the bare Hudi calls in the same warm session."""

from __future__ import annotations

import json
import statistics
from datetime import datetime
from typing import Any

from bench.figure import Figure, figure
from bench.served import Served, served
from bench.small_tables import small_tables
from bench.timed_worker import TIMINGS

_TABLES = 12
_WARMING_UP = 2


def measure() -> list[Figure]:
    """Ask a real daemon for one compaction after another.

    A run counts from its request until its ending is in the store: queue, permits, pipe, settling and all. The bare
    Hudi calls of the very same run are timed inside its session worker. The figure is the ratio's median over runs.
    """
    with small_tables() as tables:
        names = [f"asked-{number:02}" for number in range(_TABLES)]
        for name in names:
            tables.copy(name)
        with served(
            tables.folder / "daemon", tables.served_as(names, num_commits=1000), module="bench.timed_daemon"
        ) as daemon:
            daemon.until(lambda: all(daemon.get(f"/v1/tables/{name}")["observed_at"] for name in names))
            runs = [_run(daemon, name) for name in names][_WARMING_UP:]
            timings = _timings(daemon)
    ours = [_seconds(run) for run in runs]
    bare = [timings[run["id"]] for run in runs]
    ratio = statistics.median(whole / calls for whole, calls in zip(ours, bare, strict=True))
    return [
        figure(
            "overhead",
            statistics.median(ours),
            "s per run, p50",
            judged="ratio",
            goal=("<=", 1.1),
            baseline=statistics.median(bare),
            ratio=ratio,
        )
    ]


def _run(daemon: Served, name: str) -> dict[str, Any]:
    daemon.post(f"/v1/tables/{name}/services/compaction/runs")
    daemon.until(lambda: daemon.run_of(name) is not None)
    run = daemon.run_of(name)
    if run is None or run["state"] != "SUCCEEDED":
        raise RuntimeError(f"{name}: {run}")
    return run


def _seconds(run: dict[str, Any]) -> float:
    ended, created = (datetime.fromisoformat(run[key]) for key in ("ended_at", "created_at"))
    return (ended - created).total_seconds()


def _timings(daemon: Served) -> dict[str, float]:
    """Return the seconds of bare Hudi calls by run, from the session worker's log."""
    lines = [
        line.removeprefix(TIMINGS)
        for log in daemon.process.log.parent.rglob("*.log")
        for line in log.read_text(errors="replace").splitlines()
        if line.startswith(TIMINGS)
    ]
    return {entry["run"]: entry["seconds"] for entry in map(json.loads, lines)}
