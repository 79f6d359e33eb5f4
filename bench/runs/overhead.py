"""The daemon's own part of a run, beyond the bare Hudi calls in the same warm session."""

from __future__ import annotations

import json
import statistics
from datetime import datetime
from typing import Any

from bench.figure import Figure, figure
from bench.measuring.served import Served, served
from bench.runs.small_tables import small_tables
from bench.runs.timed_worker import TIMINGS

_TABLES, _WARMING_UP = 12, 2
_BRIEF = (2, 1)


def measure(*, brief: bool = False) -> list[Figure]:
    """Ask a real daemon for one compaction after another.

    The time of a run is from its request until its ending is in the store, with queue, permits, pipe and settling. The
    bare Hudi calls of the same run are timed inside its session worker. The figure is the ratio's median over the runs.
    """
    count, warming_up = _BRIEF if brief else (_TABLES, _WARMING_UP)
    with small_tables() as tables:
        names = [f"asked-{number:02}" for number in range(count)]
        for name in names:
            tables.copy(name)
        with served(
            tables.folder / "daemon", tables.served_as(names, num_commits=1000), module="bench.runs.timed_daemon"
        ) as daemon:
            daemon.until(lambda: all(daemon.get(f"/v1/tables/{name}")["observed_at"] for name in names))
            runs = [_run(daemon, name) for name in names][warming_up:]
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
