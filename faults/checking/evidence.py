"""Gathers what every format's history has: the store's rows, and what the executors have recorded.

No code of Lakewarden reads them, for it is under test.
"""

from __future__ import annotations

import contextlib
import json
import math
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from faults.checking.history import Interval, StoredRun
from lakewarden.planners.model.instant import Step

_IDLE = "nothing to do"
_RUNS = "SELECT id, identity, service, state, instant, epoch, ended_at IS NOT NULL, outcome FROM runs ORDER BY number"


def read_runs(database: Path) -> list[StoredRun]:
    """Return the runs of an SQLite store after its daemon has ended. Raises sqlite3.Error."""
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        return [stored_run(row) for row in connection.execute(_RUNS)]


def read_shared_runs(url: str) -> list[StoredRun]:
    """Return the runs of a PostgreSQL store. Raises psycopg.Error."""
    import psycopg  # noqa: PLC0415 - its driver is an extra

    with psycopg.connect(url) as connection:
        return [stored_run(row) for row in connection.execute(_RUNS)]


def stored_run(row: Sequence[Any]) -> StoredRun:
    """Return a row of `runs`."""
    run, identity, service, state, instant, epoch, ended, outcome = row
    return StoredRun(
        id=run,
        identity=identity,
        service=service,
        state=state,
        instant=instant,
        epoch=epoch,
        ended=bool(ended),
        idle=(outcome or "").startswith(_IDLE),
    )


def read_intervals(witness: Path) -> list[Interval]:
    """Return the steps of the executors, from what they recorded, and the time at which each JVM was last seen alive
    (`faults/injection/deaths.py`).

    If a step has no end, its JVM died during the step. The JVM died when it was last seen alive, or a moment later. The
    step gets the earlier time, so that an overlap that is found is a real one.
    """
    told = [json.loads(line) for line in witness.read_text().splitlines()]
    jvms = {each["pid"]: each["jvm"] for each in told if each["what"] == "session"}
    deaths = {each["jvm"]: each["alive_at"] for each in told if each["what"] == "dead"}
    open_steps: dict[tuple[Any, ...], Interval] = {}
    found: list[Interval] = []
    for each in told:
        key = (each["pid"], each.get("run"), each.get("step"))
        match each["what"]:
            case "begin":
                cut = deaths.get(jvms.get(each["pid"]), math.inf)
                open_steps[key] = _interval(each, until=max(cut, each["at"]))
            case "end":
                found.append(replace(open_steps.pop(key), until=each["at"]))
    return sorted([*found, *open_steps.values()], key=lambda interval: interval.begun)


def _interval(told: Mapping[str, Any], *, until: float) -> Interval:
    return Interval(
        run=told["run"],
        epoch=told["epoch"],
        table=told["table"],
        service=told["service"],
        instant=told["instant"],
        step=Step(told["step"]),
        begun=told["at"],
        until=until,
    )
